import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { Place } from "../place.ts";
import type { Disk } from "../results.ts";

/** What follows a call behind its back is waited for: Plexus's second fsync comes half a second later. */
const settleMs = 1000;

/** Whether strace is there and may trace; the benchmark goes without it otherwise. */
export async function hasStrace(): Promise<boolean> {
  return (await execa("strace", ["-o", "/dev/null", "true"], { reject: false })).exitCode === 0;
}

/**
 * Counts the fsyncs and the bytes written to files of one ADD and one DEL, over the processes of the
 * call and those of `daemons`, by strace; outside of the timed rounds, as it slows everything down.
 */
export async function diskUse(
  place: Place,
  { contender, daemon }: { contender: Contender; daemon: number | undefined },
  set: Delegates,
): Promise<{ add: Disk; del: Disk }> {
  const used = async (command: "ADD" | "DEL"): Promise<Disk> => {
    const log = join(place.dir, `strace-${contender.id}-${command}`);
    const pids = [contender.runner.pid, ...(daemon === undefined ? [] : [daemon])];
    const calls = "trace=fsync,fdatasync,write,pwrite64,writev,pwritev";
    const flags = ["-f", "-y", "-s", "0", "-e", calls, "-e", "signal=none", "-o", log];
    const strace = spawn("strace", [...flags, ...pids.flatMap((pid) => ["-p", String(pid)])], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    await once(strace.stderr, "data");
    await sleep(200);
    const [outcome] = await contender.runner.run([contender.job({ command, set, sandbox: 0 })]);
    if (outcome?.error !== undefined) throw new Error(outcome.error);
    await sleep(settleMs);
    strace.kill("SIGINT");
    await once(strace, "exit");
    return countIn(readFileSync(log, "utf8"), place);
  };
  return { add: await used("ADD"), del: await used("DEL") };
}

/** Lines such as `42 write(21</path/of/file>, ""..., 512) = 512`; a resumed call is not counted twice. */
function countIn(log: string, place: Place): Disk {
  let fsyncs = 0;
  let bytes = 0;
  for (const [, call = "", path = "", rest = ""] of log.matchAll(
    /^\d+ +(\w+)\(\d+<(\/[^>]*)>(.*)$/gm,
  )) {
    if (!isState(path, place)) continue;
    if (call.endsWith("sync")) fsyncs += 1;
    else bytes += Number(/, (\d+)(?:, \d+)?(?:\)| <unfinished)/.exec(rest)?.[1] ?? 0);
  }
  return { fsyncs, bytes };
}

/** Not the files in which the runner keeps what a call prints, nor the logs. */
function isState(path: string, { dir }: Place): boolean {
  return path.startsWith(`${dir}/`) && !path.startsWith(`${dir}/jobs/`) && !path.endsWith(".log");
}
