import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A process of this process namespace. */
export interface Process {
  readonly pid: number;
  readonly state: string;
  readonly command: string;
}

/** Every process that is there, but zombies and this one. */
export function processes(): Process[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1)
    .flatMap((pid) => readProcess(pid) ?? [])
    .filter(({ state }) => state !== "Z" && state !== "X");
}

function readProcess(pid: number): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = stat.slice(stat.lastIndexOf(")") + 2)[0] ?? "";
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    return { pid, state, command };
  } catch {
    return undefined;
  }
}

/** Whether a process is there and no zombie. */
export function isAlive(pid: number): boolean {
  const found = readProcess(pid);
  return found !== undefined && found.state !== "Z" && found.state !== "X";
}

/** Sends a signal; one that is gone already is no error. Returns whether it was there. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  if (pid <= 1) return false;
  try {
    process.kill(pid, name);
    return true;
  } catch {
    return false;
  }
}

/** Asks again and again; undefined when there was no answer in time or `ended` says that none will come. */
export async function poll<T>(
  probe: () => T | undefined | false,
  options: { timeoutMs: number; ended?: () => boolean },
): Promise<T | undefined> {
  const deadline = performance.now() + options.timeoutMs;
  for (;;) {
    const found = probe();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline || options.ended?.() === true) return undefined;
    await sleep(2);
  }
}
