// SPDX-License-Identifier: Apache-2.0

import { readFile } from "node:fs/promises";
import { waitFor } from "./wait.ts";

/** The processes that a process has started and not outlived. None, if it is gone itself. */
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
  return waitFor(async () => (await childrenOf(pid))[0], {
    what: `process ${pid} has a child`,
    timeoutMs: 5_000,
    intervalMs: 2,
  });
}
