import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { Phase } from "../results.ts";
import { summarize } from "./statistics.ts";

/** The row that the phases are parts of. */
const wholeCall = "the whole call, from outside";

/** Where the time goes: the median of each phase that `PLEXUS_TRACE=1` prints, in their order. */
export async function timelines(
  contender: Contender,
  { set, rounds: times }: { set: Delegates; rounds: number },
): Promise<Record<"ADD" | "DEL", Phase[]>> {
  const phases = { ADD: new Map<string, number[]>(), DEL: new Map<string, number[]>() };
  for (let round = 0; round < times; round++) {
    for (const command of ["ADD", "DEL"] as const) {
      const job = contender.job({ command, set, sandbox: 0, trace: true });
      const [whole] = await contender.runner.run([job]);
      if (whole === undefined || whole.error !== undefined) throw new Error(whole?.error);
      for (const [name, milliseconds] of [
        ...phasesIn(contender.runner.stderr(job)),
        [wholeCall, whole.milliseconds] as const,
      ]) {
        phases[command].set(name, [...(phases[command].get(name) ?? []), milliseconds]);
      }
    }
  }
  return { ADD: medians(phases.ADD), DEL: medians(phases.DEL) };
}

/** A phase that comes several times counts with its sum. */
function phasesIn(stderr: string): Map<string, number> {
  const seen = new Map<string, number>();
  for (const [, name = "", milliseconds] of stderr.matchAll(
    /^plexus trace: (.*?) +(-?[\d.]+) ms$/gm,
  )) {
    seen.set(name, (seen.get(name) ?? 0) + Number(milliseconds));
  }
  return seen;
}

function medians(phases: ReadonlyMap<string, readonly number[]>): Phase[] {
  return [...phases].map(([name, times]) => ({ name, median: summarize(times).p50 }));
}
