import { setTimeout as sleep } from "node:timers/promises";
import type { ApiServer } from "../api-server/client.ts";
import type { Counts } from "../api-server/main.ts";
import { type Contender, ownContenders } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { Row } from "../results.ts";
import type { Outcome } from "./runner.ts";
import { median, summarize } from "./statistics.ts";

/** How one case is measured. */
export interface Plan {
  readonly set: Delegates;
  /** Pods at once. */
  readonly width: number;
  readonly rounds: number;
  readonly warmUp: number;
  /**
   * The pods that the rounds go through: each one anew for a while, as every pod is on a node. Of a pod that
   * comes again and again, the event recorders of Plexus and Multus tell less and less.
   */
  readonly pods: number;
  /** Between two rounds. @default none */
  readonly restMs?: number;
  /** Between an ADD and its DEL; without one the DEL follows at once. */
  readonly pauseMs?: number;
}

/** What was seen of one contender so far. */
class Tally {
  readonly add: number[] = [];
  readonly del: number[] = [];
  /** How long all pods of a round took together; of the rounds in which none failed. */
  readonly whole = { add: [] as number[], del: [] as number[] };
  readonly failures: string[] = [];

  take(command: "add" | "del", outcomes: readonly Outcome[]): void {
    const longest = Math.max(...outcomes.map(({ milliseconds }) => milliseconds));
    if (outcomes.every(({ error }) => error === undefined)) this.whole[command].push(longest);
    for (const { milliseconds, error } of outcomes) {
      if (error === undefined) this[command].push(milliseconds);
      else this.failures.push(error);
    }
  }
}

/** Without these there is nothing to compare; what fails of others is a result. */
const mustSucceed = new Set<string>(ownContenders);

/**
 * Lets the contenders attach and detach pods, taking turns: whatever else the machine does in the
 * meantime happens to all of them. With a pause all of them attach, then all of them detach.
 * @throws Error when a call of the delegates alone or of Plexus fails
 */
export async function measure(
  api: ApiServer,
  contenders: readonly Contender[],
  plan: Plan,
): Promise<Row[]> {
  await rounds(contenders, plan, { from: -plan.warmUp, to: 0 });
  const before = { cpu: contenders.map(cpuMs), requests: structuredClone(await api.counts()) };
  const tallies = await rounds(contenders, plan, { from: 0, to: plan.rounds });
  const after = { cpu: contenders.map(cpuMs), requests: await settledCounts(api) };
  const pods = plan.rounds * plan.width;
  return contenders.map((contender, index) => {
    const { add, del, whole, failures } = tallies[index] as Tally;
    const [first] = failures;
    if (first !== undefined && mustSucceed.has(contender.id)) throw new Error(first);
    const spent = (after.cpu[index] ?? Number.NaN) - (before.cpu[index] ?? Number.NaN);
    return {
      id: contender.id,
      name: contender.name,
      add: summarize(add),
      del: summarize(del),
      ...(plan.width > 1 && { burst: { add: median(whole.add), del: median(whole.del) } }),
      cpuMs: Number.isNaN(spent) ? undefined : spent / pods,
      requests: requestsPerPod(before.requests, after.requests, { id: contender.id, pods }),
      failures: failures.length,
      ...(first !== undefined && { firstFailure: first }),
    };
  });
}

async function rounds(
  contenders: readonly Contender[],
  plan: Plan,
  range: { from: number; to: number },
): Promise<Tally[]> {
  const tallies = contenders.map(() => new Tally());
  for (let round = range.from; round < range.to; round++) {
    const turns = contenders.map((_, turn) => (turn + Math.abs(round)) % contenders.length);
    const run = async (command: "add" | "del", index: number): Promise<void> => {
      const apart = plan.pauseMs === undefined ? 0 : index * plan.width;
      const first = ((Math.abs(round) * plan.width) % plan.pods) + apart;
      const contender = contenders[index] as Contender;
      tallies[index]?.take(command, await runAll(contender, plan, { command, first }));
    };
    if (plan.pauseMs === undefined) {
      for (const index of turns) {
        await run("add", index);
        await run("del", index);
      }
    } else {
      for (const index of turns) await run("add", index);
      await sleep(plan.pauseMs);
      for (const index of turns) await run("del", index);
    }
    if (plan.restMs !== undefined) await sleep(plan.restMs);
  }
  return tallies;
}

function runAll(
  { runner, job }: Contender,
  { set, width }: Plan,
  { command, first }: { command: "add" | "del"; first: number },
): Promise<Outcome[]> {
  const cni = command === "add" ? "ADD" : "DEL";
  const calls = Array.from({ length: width }, (_, n) => ({
    command: cni,
    set,
    sandbox: first + n,
  }));
  return runner.run(calls.map((call) => job(call as Parameters<typeof job>[0])));
}

function cpuMs(contender: Contender): number | undefined {
  return contender.cpu?.milliseconds();
}

/** Events and late writes are sent behind the calls. */
async function settledCounts(api: ApiServer): Promise<Counts> {
  await sleep(300);
  return api.counts();
}

function requestsPerPod(
  before: Counts,
  after: Counts,
  { id, pods }: { id: string; pods: number },
): Record<string, number> {
  const perPod = Object.entries(after[id] ?? {}).map(
    ([what, count]) => [what, (count - (before[id]?.[what] ?? 0)) / pods] as const,
  );
  return Object.fromEntries(perPod.filter(([, count]) => count > 0));
}
