import { ground } from "../ground.ts";
import type { Process } from "../schedule.ts";
import { type ErrorCode, ProcessEndedError, systemError } from "./errors.ts";

/** Whose system call it is. @throws ProcessEndedError when it was killed */
export function currentProcess(): Process {
  const { current } = ground().schedule;
  if (!current.isAlive) throw new ProcessEndedError();
  return current;
}

/** Before a change. @throws Error of node:fs, or ProcessEndedError, as the history wants */
export function beginChange(operation: string, path: string, dest?: string): void {
  const failure = faultOf(operation, path, dest);
  if (failure === undefined) return;
  // A file is created by open().
  const syscall = ["create", "truncate"].includes(operation) ? "open" : operation;
  throw systemError(failure, { syscall, path, dest });
}

/**
 * Asks the history what goes wrong with a change.
 * @returns the error that the process gets
 * @throws ProcessEndedError when the process is killed, or the power fails
 */
export function faultOf(
  operation: string,
  path: string,
  detail: string | number = "",
): ErrorCode | undefined {
  const { schedule, faults } = ground();
  const process = schedule.current;
  // What is outside is no process of the machine: nothing kills it.
  const fault = process === schedule.outside ? "none" : faults.disk(operation, path);
  ground().note(
    () => `disk: ${operation} ${shortPath(path, detail)}${fault === "none" ? "" : `: ${fault}`}`,
  );
  if (fault === "none") return undefined;
  if (fault !== "process killed" && fault !== "power lost") return fault;
  if (fault === "process killed") schedule.kill(process);
  else ground().losePower();
  throw new ProcessEndedError();
}

/** For people. The numbers in temporary names say nothing, and go on from history to history. */
function shortPath(path: string, detail: string | number): string {
  const text = typeof detail === "number" ? `${path} (${detail} bytes)` : `${path} ${detail}`;
  return text
    .replaceAll(/\.[0-9a-f]+\.tmp/g, ".tmp")
    .replaceAll("/var/lib/plexus/", "")
    .trimEnd();
}
