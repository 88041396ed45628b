// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { waitUntil } from "./wait.ts";

/** Whether a process exists and is no zombie. */
export function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** Waits until a process has ended, whoever its parent is. */
export async function waitForExit(pid: number): Promise<void> {
  await waitUntil(`process ${pid} has ended`, () => !isRunning(pid));
}

/** The children that a process has. None, if it is gone itself. */
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
