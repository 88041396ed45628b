import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { waitUntil } from "./wait.ts";

/** A process of this PID namespace. */
export interface Process {
  readonly pid: number;
  /** As in /proc/PID/stat: `R`, `S`, `T`, … */
  readonly state: string;
  readonly command: string;
}

/** Every process but zombies, process 1 and this one. */
export function processes(): Process[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid)
    .flatMap((pid) => readProcess(pid) ?? [])
    .filter(isNoZombie);
}

/** Whether a process exists and is no zombie. */
export function isRunning(pid: number): boolean {
  const found = readProcess(pid);
  return found !== undefined && isNoZombie(found);
}

/** The command line of a process; undefined when it has ended. */
export function commandOf(pid: number): string | undefined {
  return readProcess(pid)?.command;
}

/** The variables with which a process was started, as `NAME=value`; none when it has ended. */
export function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  if (pid <= 1) return;
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

function readProcess(pid: number): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = stat.charAt(stat.lastIndexOf(")") + 2);
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    return { pid, state, command };
  } catch {
    return undefined;
  }
}

function isNoZombie({ state }: Process): boolean {
  return state !== "Z" && state !== "X";
}

/**
 * Waits until a process has ended, whatever its parent is. One that was killed closes its files
 * before it counts as ended, so that who waits for a pipe or a lock may be earlier.
 */
export async function waitForExit(pid: number): Promise<void> {
  await waitUntil(`process ${pid} has ended`, () => !isRunning(pid));
}

/** The children of a process; none when it has ended. */
export async function childrenOf(pid: number): Promise<number[]> {
  try {
    const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text.split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Waits until a process that is about to fork has its child. */
export async function onlyChildOf(pid: number): Promise<number> {
  return waitUntil(`process ${pid} has a child`, async () => (await childrenOf(pid))[0], {
    timeoutMs: 5_000,
    intervalMs: 2,
  });
}
