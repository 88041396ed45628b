import { join } from "node:path";
import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { Place } from "../place.ts";
import type { Disk } from "../results.ts";
import { straced } from "./strace.ts";

/** The calls that {@link diskIn} counts. */
const calls = "fsync,fdatasync,write,pwrite64,writev,pwritev";

/**
 * Counts the fsyncs and the bytes written to files of one ADD and one DEL, over the processes of the
 * call and those of `daemons`, by strace; outside of the timed rounds, as it slows everything down.
 */
export async function diskUse(
  place: Place,
  { contender, daemon }: { contender: Contender; daemon: number | undefined },
  set: Delegates,
): Promise<{ add: Disk; del: Disk }> {
  const { id, runner } = contender;
  const pids = [runner.pid, ...(daemon === undefined ? [] : [daemon])];
  const used = async (command: "ADD" | "DEL"): Promise<Disk> => {
    const log = join(place.dir, `strace-${id}-${command}`);
    const job = contender.job({ command, set, sandbox: 0 });
    return diskIn(await straced({ pids, log, calls }, () => runner.runOne(job)), place);
  };
  return { add: await used("ADD"), del: await used("DEL") };
}

/** Lines such as `42 write(21</path/of/file>, ""..., 512) = 512`; a resumed call is not counted twice. */
export function diskIn(log: string, place: Place): Disk {
  let fsyncs = 0;
  let bytes = 0;
  for (const [, call = "", path = "", rest = ""] of log.matchAll(
    /^\d+ +(\w+)\(\d+<(\/[^>]*)>(.*)$/gm,
  )) {
    if (!calls.split(",").includes(call) || !isState(path, place)) continue;
    if (call.endsWith("sync")) fsyncs += 1;
    else bytes += Number(/, (\d+)(?:, \d+)?(?:\)| <unfinished)/.exec(rest)?.[1] ?? 0);
  }
  return { fsyncs, bytes };
}

/** Not the files in which the runner keeps what a call prints, nor the logs. */
function isState(path: string, { dir }: Place): boolean {
  return path.startsWith(`${dir}/`) && !path.startsWith(`${dir}/jobs/`) && !path.endsWith(".log");
}
