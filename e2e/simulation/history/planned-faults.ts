import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { DelegateFault, DiskFault, Faults, RequestFault } from "../world/faults.ts";
import { ground } from "../world/ground.ts";
import type { Random } from "../world/random.ts";
import { world } from "../world/world.ts";
import type { Mischief } from "./draw/mischief.ts";

const singleObject = /\/namespaces\/[^/]+\/[^/]+\/[^/]+/;

type DelegateMischief = Mischief & {
  kind: "delegate" | "slow delegate" | "abandoned delegate";
};

function isOfDelegate(mischief: Mischief): mischief is DelegateMischief {
  return ["delegate", "slow delegate", "abandoned delegate"].includes(mischief.kind);
}

/** Carries out the mischief that happens at a port. */
export class PlannedFaults implements Faults {
  readonly #random: Random;
  readonly #delegates = new Map<number, DelegateMischief>();
  readonly #requests = new Map<number, Mischief & { kind: "request" }>();
  readonly #watches = new Map<number, Mischief & { kind: "watch" }>();
  readonly #disk: (Mischief & { kind: "disk" })[] = [];
  readonly #diskCounts = new Map<string, number>();
  #delegateCount = 0;
  #requestCount = 0;
  #watchCount = 0;
  isDiskFull = false;
  /** How writes of statuses end. */
  patches: RequestFault["outcome"] | undefined;
  /** How long the next delegate takes, unless something else is planned for it. */
  nextDelegateMs: number | undefined;
  /** Whether nothing goes wrong any more. */
  isOver = false;

  constructor(random: Random, mischief: readonly Mischief[]) {
    this.#random = random;
    for (const each of mischief) {
      if (isOfDelegate(each)) this.#delegates.set(each.nth, each);
      else if (each.kind === "request") this.#requests.set(each.nth, each);
      else if (each.kind === "watch") this.#watches.set(each.nth, each);
      else if (each.kind === "disk") this.#disk.push(each);
    }
  }

  delegate({ type, env }: DelegateCall): DelegateFault {
    const durationUs = this.#random.duration(1000, 100_000);
    const fault = this.#delegates.get(++this.#delegateCount);
    if (this.isOver) return { behaviour: "works", durationUs };
    if (env.CNI_COMMAND === "DEL" && world().failingDels.has(type))
      return { behaviour: "fails before its work", durationUs };
    const ofAdd = env.CNI_COMMAND === "ADD" ? world().failingAdds.get(type) : undefined;
    if (ofAdd !== undefined) return { behaviour: ofAdd, durationUs };
    if (fault === undefined) return { behaviour: "works", durationUs: this.#next(durationUs) };
    if (fault.kind === "delegate") return { behaviour: fault.behaviour, durationUs };
    if (fault.kind === "slow delegate")
      return { behaviour: "works", durationUs: fault.durationMs * 1000 };
    const { schedule } = ground();
    const shim = schedule.current;
    schedule.at(fault.afterMs * 1000, () => schedule.kill(shim), schedule.outside);
    return { behaviour: "hangs with a child", durationUs };
  }

  #next(durationUs: number): number {
    const slowMs = this.nextDelegateMs;
    this.nextDelegateMs = undefined;
    return slowMs === undefined ? durationUs : slowMs * 1000;
  }

  request(method: string, path: string): RequestFault {
    const delayUs = this.#random.duration(500, 20_000);
    const fault = this.#requests.get(++this.#requestCount);
    if (this.isOver) return { outcome: "answered", delayUs };
    const ofWrites = method === "PATCH" && /\/pods\//.test(path) ? this.patches : undefined;
    const outcome = fault?.outcome ?? ofWrites ?? "answered";
    // The server cancels what it has not processed when it hears that the client has gone.
    if (outcome === "late") return { outcome, delayUs: this.#random.duration(1000, 300_000) };
    // Only a list may be old. A server reads a single object from its store.
    const isOfOne = method === "GET" && singleObject.test(path);
    return { outcome: outcome === "old" && isOfOne ? "answered" : outcome, delayUs };
  }

  watch(): number | "ends" | "expires" | "silent" {
    const delayUs = this.#random.duration(500, 20_000);
    const fault = this.#watches.get(++this.#watchCount);
    return this.isOver ? delayUs : (fault?.what ?? delayUs);
  }

  disk(operation: string): DiskFault {
    if (this.isOver) return "none";
    const fault = this.#disk.length === 0 ? undefined : this.#diskFault(operation);
    const isFull = this.isDiskFull && /^(open|write|mkdir)/.test(operation);
    return fault ?? (isFull ? "ENOSPC" : "none");
  }

  #diskFault(operation: string): DiskFault | undefined {
    const counts = this.#diskCounts;
    for (const of of ["any", operation]) counts.set(of, (counts.get(of) ?? 0) + 1);
    return this.#disk.find(
      ({ of, nth }) => (of === "any" || of === operation) && counts.get(of) === nth,
    )?.fault;
  }
}
