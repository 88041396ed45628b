import type { ExecMessage } from "#protocol/messages.ts";
import { encodePlan } from "#protocol/plan.ts";
import { formatDefaultPlan } from "#records/record-file.ts";
import { Random } from "../world/random.ts";

/*
 * Calls that both the shim and its model are given, to compare what they do.
 */

/** Plugins behave by the interface of the call. A CHECK fails, and an ADD unless it leaves a process. */
const ifNames = ["works", "works-too", "fails", "dies", "hangs", "child", "orphan"] as const;
export type IfName = (typeof ifNames)[number];

/** How long the children of plugins run, in milliseconds. An orphan's pipes outlast its call. */
export const childMs = { child: 300, orphan: 60_000 } as const;

/** How long plugins may hang and leave processes, which is short so that the comparison is. */
const limitsMs = { hang: 600, straggler: 300 } as const;
/** The same where something is killed meanwhile: a busy machine sees late that a plugin hangs. */
const limitsOfKilledMs = { hang: 4000, straggler: 4000 } as const;

function limitsOf(calls: readonly Pick<CallCase, "killed">[]) {
  return calls.some(({ killed }) => killed !== "none") ? limitsOfKilledMs : limitsMs;
}

/** What an order or a call passes as CNI_NETNS: nothing, a pod's, an absent one, or the runtime's. */
type Netns = "" | "pod" | "gone" | "own";

interface OrderCase {
  readonly type: "tuning" | "absent";
  readonly command: string;
  readonly containerId: "c1" | "c2";
  readonly ifName: IfName;
  readonly netns: Netns;
}

interface EngineCase {
  /** Whether it looks up plugins first. */
  readonly isFinding: boolean;
  /** What its first order requires besides its own plugin. */
  readonly requires: readonly string[];
  readonly orders: readonly OrderCase[];
  /** Whether it sends all orders at once. */
  readonly isPipelined: boolean;
  readonly end: "done" | "fails" | "dies" | "is silent";
}

export interface CallCase {
  readonly command: string;
  readonly netns: Netns;
  /** Undefined: nothing listens on the socket. */
  readonly engine: EngineCase | undefined;
  /** What is killed while a plugin hangs or its orphan runs. */
  readonly killed: "none" | "shim" | "runtime";
}

interface PlanCase {
  readonly steps: readonly { readonly ifName: IfName; readonly group: number }[];
  readonly attempted: number;
  readonly isOfThisBoot: boolean;
  readonly damage: "none" | "update cut off" | "altered" | "of another" | "empty";
  readonly mode: number;
}

export interface ShimCase {
  readonly record: PlanCase | undefined;
  readonly hasTombstone: boolean;
  /** Whether the record is marked as one that only an engine detaches. */
  readonly isEngineOnly: boolean;
  /** The namespace of another sandbox with a record, and the mode of that. */
  readonly other: { readonly netns: Netns; readonly mode: number } | undefined;
  /** The interfaces of the steps of `default.plan`. */
  readonly defaultPlan: readonly IfName[] | undefined;
  /** One after another. */
  readonly calls: readonly CallCase[];
}

/** What a case led to. */
export interface ShimCaseEnd {
  /** `COMMAND CONTAINER INTERFACE NETNS` of each plugin that was executed. */
  readonly executed: string[];
  /** Of each order: its outcome and code; of each lookup: what was found. */
  readonly answers: string[];
  /** Of each call: its exit status and CNI code. */
  readonly statuses: string[];
  /** Of the state directory: `NAME MODE`, and `empty` if it is. */
  readonly files: string[];
}

/** The paths that a case needs, which differ between shim and model. */
export interface CasePaths {
  readonly bin: string;
  readonly bootId: string;
  /** A network namespace with nothing in it. */
  readonly podNetns: string;
}

export function shimCase(seed: number): ShimCase {
  const random = new Random(seed);
  return {
    record: random.chance(0.7) ? planCase(random) : undefined,
    hasTombstone: random.chance(0.15),
    defaultPlan: random.chance(0.5) ? [someIfName(random)] : undefined,
    calls: Array.from({ length: random.integer(1, 2) }, () => callCase(random)),
    isEngineOnly: random.chance(0.1),
    other: random.chance(0.3)
      ? {
          netns: random.pick(["pod", "pod", "gone", "own"]),
          mode: random.pick([0o600, 0o1600, 0o640]),
        }
      : undefined,
  };
}

function planCase(random: Random): PlanCase {
  const groups = random.integer(0, 3);
  const steps = Array.from({ length: random.integer(groups, 4) }, (_, index) => ({
    ifName: someIfName(random),
    group: Math.max(0, groups - Math.floor(index / 2)),
  }));
  const damage = random.weighted({
    ...{ none: 8, "update cut off": 1, altered: 1, "of another": 1, empty: 1 },
  });
  return {
    ...{ steps, damage, attempted: random.integer(0, groups + 1) },
    isOfThisBoot: random.chance(0.7),
    mode: random.pick([0o600, 0o600, 0o600, 0o1600, 0o700, 0o640]),
  };
}

function callCase(random: Random): CallCase {
  const command = random.weighted({ DEL: 5, ADD: 4, CHECK: 1, GC: 2, STATUS: 1, PAUSE: 0.3 });
  const commands = { DEL: 10, VERSION: 0.5, ADD: 1, CHECK: 0.5, GC: 1, STATUS: 0.5 };
  const netns = random.weighted({ "": 3, pod: 4, gone: 1, own: 1 });
  const order = (): OrderCase => ({
    type: random.chance(0.9) ? "tuning" : "absent",
    command: random.weighted(commands),
    containerId: random.chance(0.75) ? "c1" : "c2",
    ifName: someIfName(random),
    netns: random.chance(0.6) ? netns : random.weighted({ "": 5, pod: 2, gone: 1, own: 1 }),
  });
  const engine = (): EngineCase => ({
    isFinding: random.chance(0.3),
    requires: random.pick([[], [], ["tuning"], ["tuning", "absent"]]),
    orders: Array.from({ length: random.integer(0, 3) }, order),
    isPipelined: random.chance(0.3),
    end: random.weighted({ done: 4, fails: 1, dies: 4, "is silent": 1 }),
  });
  return {
    command,
    netns,
    engine: random.chance(0.65) ? engine() : undefined,
    killed: random.weighted({ none: 4, shim: 3, runtime: 1 }),
  };
}

function someIfName(random: Random): IfName {
  return random.weighted({
    ...{ works: 6, "works-too": 4, fails: 2, dies: 1, hangs: 2, child: 0.6, orphan: 0.6 },
  });
}

function netnsPath(netns: Netns, { podNetns }: CasePaths): string {
  return { "": "", pod: podNetns, gone: "/run/netns/none", own: "/proc/self/ns/net" }[netns];
}

/** The variables of a call, but for those that only the real shim needs. */
export function callVariables(call: CallCase, paths: CasePaths) {
  const { command, netns } = call;
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: "c1",
    CNI_IFNAME: "eth0",
    CNI_NETNS: netnsPath(netns, paths),
    PLEXUS_WAIT_MS: "60",
    PLEXUS_SILENCE_MS: "2000",
    PLEXUS_STRAGGLER_MS: String(limitsOf([call]).straggler),
  };
}

/** @param calls in which the plugin may run */
export function orderOf(
  order: OrderCase,
  paths: CasePaths,
  calls: readonly CallCase[],
): ExecMessage {
  return {
    type: order.type,
    group: 0,
    searchPath: [paths.bin],
    timeoutMs: order.ifName === "hangs" ? limitsOf(calls).hang : 10_000,
    stdin: JSON.stringify({ cniVersion: "1.1.0", name: "n", type: order.type }),
    env: {
      CNI_COMMAND: order.command,
      CNI_CONTAINERID: order.containerId,
      CNI_IFNAME: order.ifName,
      CNI_NETNS: netnsPath(order.netns, paths),
    },
  };
}

/** The files of the state directory before the first call. */
export function filesBefore(
  { record, hasTombstone, isEngineOnly, other, defaultPlan, calls }: ShimCase,
  paths: CasePaths,
): { readonly name: string; readonly content: Uint8Array; readonly mode: number }[] {
  const files = [];
  if (record !== undefined) {
    const { mode } = record;
    files.push({ name: "c1@eth0.record", content: recordBytes(record, paths, calls), mode });
  }
  const empty = { content: Buffer.alloc(0), mode: 0o600 };
  if (hasTombstone) files.push({ name: "c1@eth0.detached", ...empty });
  if (isEngineOnly) files.push({ name: "c1@eth0.engine-only", ...empty });
  if (other !== undefined) {
    const dels = [del({ ifName: "works", netns: other.netns }, paths, calls)];
    const plan = { calls: dels, attempted: 1, bootId: paths.bootId };
    const content = encodePlan(
      { containerId: "c2", ifName: "eth0", ...plan },
      { schema: "2", text: "{}" },
    );
    files.push({ name: "c2@eth0.record", content, mode: other.mode });
  }
  if (defaultPlan !== undefined) {
    const content = formatDefaultPlan(defaultPlan.map((ifName) => del({ ifName }, paths, calls)));
    files.push({ name: "default.plan", content, mode: 0o600 });
  }
  return files;
}

function recordBytes(record: PlanCase, paths: CasePaths, calls: readonly CallCase[]): Uint8Array {
  const dels = record.steps.map(({ ifName, group }) => ({
    ...del({ ifName }, paths, calls),
    group,
  }));
  const plan = {
    ...{ containerId: "c1", ifName: "eth0", calls: dels, attempted: record.attempted },
    bootId: record.isOfThisBoot ? paths.bootId : "of another boot",
  };
  const bytes = encodePlan(plan, { schema: "2", text: "{}" });
  switch (record.damage) {
    case "none":
      return bytes;
    case "update cut off":
      return Buffer.concat([bytes, bytes.subarray(0, bytes.length / 2)]);
    case "altered":
      return bytes.fill(1, 60, 62);
    case "of another":
      return encodePlan({ ...plan, containerId: "c2" }, { schema: "2", text: "{}" });
    case "empty":
      return Buffer.alloc(0);
  }
}

/** A plan's DEL, by its interface, and the runtime's namespace unless given. */
function del(
  given: Pick<OrderCase, "ifName"> & Partial<OrderCase>,
  paths: CasePaths,
  calls: readonly CallCase[],
): ExecMessage {
  const usual = { type: "tuning", command: "DEL", containerId: "c1", netns: "own" } as const;
  return orderOf({ ...usual, ...given }, paths, calls);
}
