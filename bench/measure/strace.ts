import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";

/** What follows a call behind its back is waited for: Plexus's second fsync comes half a second later. */
const settleMs = 1000;

/**
 * Whether strace is there and may trace; the benchmark goes without it otherwise.
 * @throws Error with `CI=true` if it may not: nothing would compare the counts
 */
export async function hasStrace(): Promise<boolean> {
  const { exitCode } = await execa("strace", ["-o", "/dev/null", "true"], { reject: false });
  if (exitCode !== 0 && process.env.CI === "true") {
    throw new Error("strace is missing or may not trace, so nothing can be counted");
  }
  return exitCode === 0;
}

/**
 * The system calls of these processes and of all that they start, while `run` runs and a second after it: strace's
 * lines, with paths instead of file descriptors and without contents.
 * @param calls the names of the calls, separated by commas. @default all
 */
export async function straced(
  { pids, log, calls = "all" }: { pids: readonly number[]; log: string; calls?: string },
  run: () => Promise<unknown>,
): Promise<string> {
  const flags = ["-f", "-y", "-s", "0", "-e", `trace=${calls}`, "-e", "signal=none", "-o", log];
  const strace = spawn("strace", [...flags, ...pids.flatMap((pid) => ["-p", String(pid)])], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  await once(strace.stderr, "data");
  await sleep(200);
  await run();
  await sleep(settleMs);
  strace.kill("SIGINT");
  await once(strace, "exit");
  return readFileSync(log, "utf8");
}
