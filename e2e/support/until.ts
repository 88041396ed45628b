import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

/** Asks again and again until there is an answer; only a hung system makes it give up. */
export async function until<T>(
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 50_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain`);
    await sleep(5);
  }
}

/** Whether a process is there and no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/^\d+ \(.*\) [ZX]/.test(stat);
}

/** Resolves when a process is gone. */
export async function gone(pid: number): Promise<void> {
  await until(async () => ((await isAlive(pid)) ? undefined : true));
}
