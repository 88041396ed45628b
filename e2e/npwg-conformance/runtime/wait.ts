import { setTimeout as sleep } from "node:timers/promises";

/** How often a condition is checked. */
const intervalMs = 20;

/** Waits until the condition holds. @throws Error naming it if that takes longer than `timeoutMs` */
export async function waitUntil(
  condition: string,
  holds: () => boolean | Promise<boolean>,
  timeoutMs = 30_000,
): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`timed out after ${timeoutMs} ms: ${condition}`);
    await sleep(intervalMs);
  }
}
