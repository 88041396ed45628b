import type { Contender } from "./contenders.ts";
import type { Runner } from "./runner.ts";
import { type Summary, summarize } from "./statistics.ts";

/** What one contender took. */
export interface Measured {
  readonly name: string;
  readonly add: Summary;
  readonly del: Summary;
}

/**
 * Lets the contenders attach and detach `width` pods at once, `rounds` times, taking turns: whatever
 * else the machine does in the meantime happens to all of them. The first rounds are not counted.
 */
export async function measure(
  runner: Runner,
  contenders: readonly Contender[],
  plan: { readonly rounds: number; readonly width: number; readonly warmUp: number },
): Promise<Measured[]> {
  const times = contenders.map(() => ({ add: [] as number[], del: [] as number[] }));
  for (let round = -plan.warmUp; round < plan.rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const index = (turn + Math.abs(round)) % contenders.length;
      const contender = contenders[index] as Contender;
      const sandboxes = Array.from({ length: plan.width }, (_, n) => n);
      const add = await runner.run(sandboxes.map((n) => contender.job("ADD", n)));
      const del = await runner.run(sandboxes.map((n) => contender.job("DEL", n)));
      if (round < 0) continue;
      times[index]?.add.push(...add);
      times[index]?.del.push(...del);
    }
  }
  return contenders.map(({ name }, index) => ({
    name,
    add: summarize(times[index]?.add ?? []),
    del: summarize(times[index]?.del ?? []),
  }));
}

/** One phase of a call. */
export interface Phase {
  readonly name: string;
  readonly median: number;
}

/** The row that the phases are parts of. */
const wholeCall = "the whole call, from outside";

/** Where the time goes: the median of each phase that `PLEXUS_TRACE=1` prints, in their order. */
export async function timelines(
  runner: Runner,
  traced: Contender,
  rounds: number,
): Promise<Record<"ADD" | "DEL", Phase[]>> {
  const phases = { ADD: new Map<string, number[]>(), DEL: new Map<string, number[]>() };
  for (let round = 0; round < rounds; round++) {
    for (const command of ["ADD", "DEL"] as const) {
      const job = traced.job(command, 0);
      const [whole = 0] = await runner.run([job]);
      for (const [name, milliseconds] of [
        ...phasesIn(runner.stderr(job)),
        [wholeCall, whole] as const,
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
