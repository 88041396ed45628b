import { setTimeout as sleep } from "node:timers/promises";
import { noop } from "./cases.ts";
import type { Contender } from "./contenders.ts";
import { type Delegates, noops } from "./delegates.ts";
import { measure } from "./measure/measure.ts";
import { type Bench, Daemons } from "./node.ts";
import { nads, otherNads, pods } from "./objects.ts";
import type { Growth } from "./results.ts";

/** How many there are of each, up to what is expected of a large node in a large cluster. */
const scales = {
  quick: { networks: [1, 2, 4, 8], nads: [10, 1000], pods: [10, 100] },
  full: { networks: [1, 2, 4, 8], nads: [10, 100, 1000, 5000], pods: [10, 100, 250, 500] },
};

/**
 * Multus's client allows itself 50 requests a second: without a rest between its calls it would be
 * measured waiting, and what was attached just before would count.
 */
const restMs = 100;

/** Until the burst of that client's limit is there again. */
const refillMs = 3000;

/** What one number of objects came to: a value for each contender, by its name. */
type Values = ReadonlyMap<string, number>;

/**
 * How the time of an ADD and the memory of the daemons grow: with the networks of a pod, with the
 * cluster's definitions, and with the pods that are attached. The plugins do nothing, so that what is
 * seen is the growth of the contenders' own part.
 */
export async function measureGrowth(bench: Bench): Promise<Growth[]> {
  const scale = bench.effort.quick ? scales.quick : scales.full;
  return [
    await withNetworks(bench, scale.networks),
    ...(await withNads(bench, scale.nads)),
    ...(await withPods(bench, scale.pods)),
  ];
}

async function withNetworks(bench: Bench, counts: readonly number[]): Promise<Growth> {
  const { place, multus } = bench;
  const contenders = withDaemons(bench);
  const sets = counts.map((count) => noops(count));
  await place.api.replace("network-attachment-definitions", nads(sets));
  const daemons = await Daemons.start(place, multus, contenders);
  const points: [number, Values][] = [];
  for (const set of sets) {
    progress(`${set.plugins.length} networks`);
    await placePods(bench, set, 1);
    points.push([set.plugins.length, await addTimes(bench, contenders, set)]);
  }
  await daemons.stop();
  return growth("networks", "ADD by networks of the pod", {
    along: "networks",
    unit: "ms",
    points,
  });
}

async function withNads(bench: Bench, counts: readonly number[]): Promise<Growth[]> {
  const contenders = withDaemons(bench);
  const times: [number, Values][] = [];
  const memory: [number, Values][] = [];
  for (const count of counts) {
    progress(`${count} definitions`);
    const objects = [...nads([noop]), ...otherNads(count - 1)];
    await bench.place.api.replace("network-attachment-definitions", objects);
    const daemons = await Daemons.start(bench.place, bench.multus, contenders);
    await placePods(bench, noop, 1);
    times.push([count, await addTimes(bench, contenders, noop)]);
    memory.push([count, anonymous(daemons, contenders)]);
    await daemons.stop();
  }
  const along = "NetworkAttachmentDefinitions of the cluster";
  return [
    growth("nads-add", "ADD by definitions", { along, unit: "ms", points: times }),
    growth("nads-memory", "Daemon's own memory by definitions", {
      along,
      unit: "MiB",
      points: memory,
    }),
  ];
}

/** Pods stay attached while one more comes and goes: their records lie on the disk, they in the cache. */
async function withPods(bench: Bench, counts: readonly number[]): Promise<Growth[]> {
  const contenders = withDaemons(bench);
  const most = Math.max(...counts);
  await bench.place.api.replace("network-attachment-definitions", nads([noop]));
  const daemons = await Daemons.start(bench.place, bench.multus, contenders);
  const times: [number, Values][] = [];
  const memory: [number, Values][] = [];
  let attached = 1;
  for (const count of counts) {
    progress(`${count} pods`);
    await placePods(bench, noop, count);
    await attach(contenders, "ADD", { from: attached, to: count });
    await sleep(refillMs);
    attached = count;
    times.push([count, await addTimes(bench, contenders, noop)]);
    memory.push([count, anonymous(daemons, contenders)]);
  }
  await attach(contenders, "DEL", { from: 1, to: most });
  await daemons.stop();
  const along = "pods attached on the node";
  return [
    growth("pods-add", "ADD by pods", { along, unit: "ms", points: times }),
    growth("pods-memory", "Daemon's own memory by pods", { along, unit: "MiB", points: memory }),
  ];
}

async function attach(
  contenders: readonly Contender[],
  command: "ADD" | "DEL",
  { from, to }: { from: number; to: number },
): Promise<void> {
  const atOnce = 10;
  for (const { runner, job } of contenders) {
    for (let first = from; first < to; first += atOnce) {
      const count = Math.min(atOnce, to - first);
      const calls = Array.from({ length: count }, (_, n) =>
        job({ command, set: noop, sandbox: first + n }),
      );
      const failed = (await runner.run(calls)).find(({ error }) => error !== undefined);
      if (failed !== undefined) throw new Error(failed.error);
    }
  }
}

/** Puts the pods' objects there, and waits until the caches have them. */
async function placePods({ place }: Bench, set: Delegates, count: number): Promise<void> {
  await place.api.replace("pods", pods(set, count));
  await sleep(500);
}

/** Medians of the ADDs of pod 0. */
async function addTimes(
  { place, effort }: Bench,
  contenders: readonly Contender[],
  set: Delegates,
): Promise<Values> {
  const rounds = Math.ceil(effort.rounds / (effort.quick ? 2 : 4));
  const rows = await measure(place.api, contenders, {
    set,
    width: 1,
    rounds,
    warmUp: 2,
    pods: 1,
    restMs,
  });
  return new Map(rows.map(({ name, add }) => [name, add.p50]));
}

function anonymous(daemons: Daemons, contenders: readonly Contender[]): Values {
  const memory = daemons.memory(contenders, "");
  return new Map(memory.map((each) => [each.contender, each.memory.anonymous]));
}

/** The others keep nothing between two calls, and so have nothing that could grow. */
function withDaemons({ contenders }: Bench): Contender[] {
  return contenders.filter(({ id }) => ["direct", "plexus", "multus-thick"].includes(id));
}

function growth(
  id: string,
  title: string,
  rest: { along: string; unit: string; points: readonly [number, Values][] },
): Growth {
  const { along, unit, points } = rest;
  const names = new Set(points.flatMap(([, values]) => [...values.keys()]));
  const lines = [...names].map((name) => ({
    name,
    points: points.map(([x, values]) => [x, values.get(name) ?? Number.NaN] as const),
  }));
  return { id, title, along, unit, lines };
}

function progress(what: string): void {
  process.stderr.write(`bench: growth: ${what}\n`);
}
