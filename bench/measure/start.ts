import { setTimeout as sleep } from "node:timers/promises";
import { real } from "../cases.ts";
import { type Contender, ownContenders } from "../contenders.ts";
import { type Bench, Daemons } from "../node.ts";
import { nads, pods } from "../objects.ts";
import type { FirstCalls } from "../results.ts";
import { summarize } from "./statistics.ts";

/** The calls after a start that are measured. */
const calls = 10;

/** Between the moment at which a daemon serves and its first call. */
const settleMs = 1000;

const measured: readonly string[] = [...ownContenders, "multus-thick"];

/** Times of each call after the start, by its number: the values of all samples. */
type Seen = Record<"add" | "del", number[][]>;

/**
 * The first calls after the start of a daemon, for each contender that has one: each sample starts all daemons anew. The
 * contenders take turns, and each pod is attached and detached before the next one.
 */
export async function measureStart(bench: Bench): Promise<FirstCalls[]> {
  const { place, multus, effort } = bench;
  const contenders = bench.contenders.filter(({ id }) => measured.includes(id));
  const samples = effort.quick ? 2 : Math.ceil(effort.rounds / 20);
  const seen = contenders.map((): Seen => ({ add: columns(), del: columns() }));
  await place.api.replace("network-attachment-definitions", nads([real]));
  await place.api.replace("pods", pods(real, calls));
  for (let sample = 0; sample < samples; sample++) {
    const daemons = await Daemons.start(place, multus, contenders);
    await sleep(settleMs);
    for (let call = 0; call < calls; call++) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const index = (turn + sample + call) % contenders.length;
        await runCall(contenders[index] as Contender, call, seen[index] as Seen);
      }
    }
    await daemons.stop();
  }
  return contenders.map(({ id, name }, index) => {
    const { add, del } = seen[index] as Seen;
    return { id, name, add: add.map(middle), del: del.map(middle) };
  });
}

async function runCall({ runner, job }: Contender, call: number, seen: Seen): Promise<void> {
  for (const command of ["ADD", "DEL"] as const) {
    const { milliseconds } = await runner.runOne(job({ command, set: real, sandbox: call }));
    seen[command === "ADD" ? "add" : "del"][call]?.push(milliseconds);
  }
}

function columns(): number[][] {
  return Array.from({ length: calls }, () => []);
}

function middle(values: readonly number[]): number {
  return summarize(values).p50;
}
