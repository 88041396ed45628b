import type { Result } from "execa";

/** What one CNI call printed and exited with. */
export interface CallOutcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** stdout as JSON; undefined when it is empty. */
  readonly json: unknown;
}

/** A call that is being made: its shim can be watched and killed. */
export interface RunningCall {
  readonly pid: number;
  readonly outcome: Promise<CallOutcome>;
}

/** A CNI error as printed. */
export interface PrintedError {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

/** One CNI call as a runtime makes it. */
export interface CniCall {
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly containerId?: string;
  /** Name of a namespace of the lab; its path becomes CNI_NETNS. */
  readonly netns?: string;
  readonly ifName?: string;
  /** `namespace/name`, optionally with `@uid`, for the K8S_* arguments. */
  readonly pod?: string;
  /** More CNI_ARGS, e.g. `IP=10.0.0.5`. */
  readonly args?: string;
  readonly conf: object | string;
  readonly env?: Readonly<Record<string, string>>;
}

/** What a call that has ended printed and exited with. */
export function outcomeOf(result: Result): CallOutcome {
  const stdout = String(result.stdout ?? "");
  return {
    exitCode: result.exitCode ?? -1,
    stdout,
    stderr: String(result.stderr ?? ""),
    json: stdout.trim() === "" ? undefined : JSON.parse(stdout),
  };
}

/** The error that a call printed; throws when it succeeded. */
export function errorOf(outcome: CallOutcome): PrintedError {
  if (outcome.exitCode !== 1) throw new Error(`expected exit status 1: ${JSON.stringify(outcome)}`);
  return outcome.json as PrintedError;
}
