import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "../../../support/paths.ts";
import { type RunResult, tryRun } from "../../machine/run.ts";
import type { Target } from "./target.ts";

/** Runs deploy/kubectl-plexus with a kubectl that reaches the cluster; `flags` are kubectl's own. */
export async function kubectlPlexus(
  target: Target,
  args: readonly string[],
  { flags = [], cwd }: { readonly flags?: readonly string[]; readonly cwd?: string } = {},
): Promise<RunResult> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-kubectl-"));
  const kubectl = join(dir.path, "kubectl");
  const path = process.env.PATH ?? "";
  const quoted = target.kubectlCommand(...flags).map((each) => `'${each}'`);
  await writeFile(kubectl, `#!/bin/sh\nPATH='${path}' exec ${quoted.join(" ")} "$@"\n`);
  await chmod(kubectl, 0o755);
  const script = join(repositoryRoot, "deploy/kubectl-plexus");
  const env = { PATH: `${dir.path}:${path}` };
  return await tryRun([script, ...args], { env, ...(cwd !== undefined && { cwd }) });
}
