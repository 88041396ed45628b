import { expect } from "vitest";
import { releaseTool } from "../../../release/tools.ts";
import { type RunResult, tryRun } from "../../machine/run.ts";
import { ownCluster, type Target } from "./target.ts";

/** Runs Helm as the administrator, whatever its exit status. */
export async function tryHelm(target: Target, ...args: string[]): Promise<RunResult> {
  const helm = await releaseTool("helm");
  return tryRun(ownCluster({ target }).administratorCommand(helm, ...args));
}

/** Runs Helm as the administrator. @throws AssertionError if it fails */
export async function helm(target: Target, ...args: string[]): Promise<RunResult> {
  const result = await tryHelm(target, ...args);
  expect(result, result.stderr).toMatchObject({ exitCode: 0 });
  return result;
}
