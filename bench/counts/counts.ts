import { join } from "node:path";
import { noop } from "../cases.ts";
import type { Contender } from "../contenders.ts";
import { diskIn } from "../measure/disk.ts";
import { straced } from "../measure/strace.ts";
import { type Bench, Daemons } from "../node.ts";
import { nads, pods } from "../objects.ts";
import type { CallCounts, Counts } from "../results.ts";
import { FrameCounter } from "./frames.ts";
import { fewest, systemCallsOf } from "./system-calls.ts";

/** Calls whose counts depend on the moment are repeated; the fewest count. */
const times = 6;

/**
 * Counts what an ADD and a DEL of two plugins that do nothing come to: under strace, and between shim and plexusd.
 * Each pod is new, as the event recorder tells less and less of the same one.
 */
export async function measureCounts(bench: Bench): Promise<Counts> {
  const { place, multus } = bench;
  const plexus = bench.contenders.find(({ id }) => id === "plexus");
  if (plexus === undefined) throw new Error("counts are those of the contender plexus");
  await place.api.replace("network-attachment-definitions", nads([noop]));
  await place.api.replace("pods", pods(noop, 1 + times));
  const daemons = await Daemons.start(place, multus, [plexus]);
  using frames = new FrameCounter({
    socket: join(place.dir, "counted.sock"),
    engine: place.builds[0].socket,
  });
  const seen: Record<"ADD" | "DEL", CallCounts[]> = { ADD: [], DEL: [] };
  for (let time = -1; time < times; time++) {
    for (const command of ["ADD", "DEL"] as const) {
      const sandbox = time + 1;
      const counts = await countsOf({ command, sandbox }, { bench, plexus, daemons, frames });
      if (time >= 0) seen[command].push(counts);
    }
  }
  await daemons.stop();
  return { ADD: least(seen.ADD), DEL: least(seen.DEL) };
}

async function countsOf(
  call: { command: "ADD" | "DEL"; sandbox: number },
  parts: { bench: Bench; plexus: Contender; daemons: Daemons; frames: FrameCounter },
): Promise<CallCounts> {
  const { bench, plexus, daemons, frames } = parts;
  const { place } = bench;
  const socket = join(place.dir, "counted.sock");
  const job = plexus.job({ ...call, set: noop, socket });
  const before = await requests(bench);
  const pids = [plexus.runner.pid, daemons.pid("plexus") ?? 0];
  const log = await straced({ pids, log: join(place.dir, "counted.log") }, () =>
    plexus.runner.runOne(job),
  );
  const { waits, shim, engine } = frames.last;
  const { fsyncs, bytes } = diskIn(log, place);
  return {
    waits,
    framesOfShim: shim.frames,
    framesOfEngine: engine.frames,
    bytesOfFrames: shim.bytes + engine.bytes,
    apiRequests: (await requests(bench)) - before,
    fsyncs,
    bytesWritten: bytes,
    systemCalls: systemCallsOf({ shim: place.builds[0].shim, plugins: place.plugins }, log),
  };
}

async function requests({ place }: Bench): Promise<number> {
  const { plexus = {} } = await place.api.counts();
  return Object.values(plexus).reduce((sum, count) => sum + count, 0);
}

function least(seen: readonly CallCounts[]): CallCounts {
  const of = (pick: (counts: CallCounts) => number): number => Math.min(...seen.map(pick));
  return {
    waits: of((counts) => counts.waits),
    framesOfShim: of((counts) => counts.framesOfShim),
    framesOfEngine: of((counts) => counts.framesOfEngine),
    bytesOfFrames: of((counts) => counts.bytesOfFrames),
    apiRequests: of((counts) => counts.apiRequests),
    fsyncs: of((counts) => counts.fsyncs),
    bytesWritten: of((counts) => counts.bytesWritten),
    systemCalls: fewest(seen.map(({ systemCalls }) => systemCalls)),
  };
}
