import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { CallTrace, Phase } from "../results.ts";
import type { Outcome } from "./runner.ts";
import { summarize } from "./statistics.ts";

/** What `PLEXUS_TRACE=1` prints of the calls of one command. */
interface Traced {
  /** The median of each phase, in their order. */
  readonly phases: readonly Phase[];
  /** The call whose time is the median. */
  readonly trace: CallTrace;
}

/** Where the time of an ADD and of a DEL goes. */
export async function timelines(
  contender: Contender,
  { set, rounds: times }: { set: Delegates; rounds: number },
): Promise<Record<"ADD" | "DEL", Traced>> {
  const traces: Record<"ADD" | "DEL", CallTrace[]> = { ADD: [], DEL: [] };
  for (let round = 0; round < times; round++) {
    for (const command of ["ADD", "DEL"] as const) {
      const job = contender.job({ command, set, sandbox: 0, trace: true });
      const outcome = await contender.runner.runOne(job);
      traces[command].push(traceIn(contender.runner.stderr(job), outcome));
    }
  }
  return { ADD: traced(traces.ADD), DEL: traced(traces.DEL) };
}

/** @throws Error when there is no trace in it */
function traceIn(stderr: string, { startedUs, milliseconds }: Outcome): CallTrace {
  const shim = /^plexus trace: started ([\d.]+)$/m.exec(stderr)?.[1];
  if (shim === undefined) throw new Error(`no trace: ${stderr}`);
  const lines = stderr.matchAll(/^plexus trace: (.*?) +at +([\d.]+) ms for +(-?[\d.]+) ms$/gm);
  const spans = [...lines].map(([, name = "", at, took]) => ({
    name,
    at: Number(at),
    took: Number(took),
  }));
  return { shimStart: (Number(shim) * 1e6 - startedUs) / 1000, spans, whole: milliseconds };
}

function traced(traces: readonly CallTrace[]): Traced {
  const byTime = traces.toSorted((a, b) => a.whole - b.whole);
  const trace = byTime[Math.ceil(byTime.length / 2) - 1];
  if (trace === undefined) throw new Error("no call was traced");
  const times = new Map<string, number[]>();
  for (const each of traces) {
    for (const [name, took] of sums(each)) times.set(name, [...(times.get(name) ?? []), took]);
  }
  const phases = [...times].map(([name, took]) => ({ name, median: summarize(took).p50 }));
  return { phases, trace };
}

/** A phase that comes several times counts with its sum. */
function sums({ spans, whole }: CallTrace): Map<string, number> {
  const seen = new Map<string, number>();
  for (const { name, took } of spans) {
    if (name !== "answer") seen.set(name, (seen.get(name) ?? 0) + took);
  }
  return seen.set("the whole call, from outside", whole);
}
