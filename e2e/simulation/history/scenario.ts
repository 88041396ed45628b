import { type NetworkName, requestable } from "../node/networks.ts";
import type { DelegateBehaviour, DiskFault, RequestOutcome } from "../world/faults.ts";
import { Random } from "../world/random.ts";

/** What one history is about. The seed decides it, and all delays and orders. */
export interface Scenario {
  readonly seed: number;
  readonly runtime: "containerd" | "CRI-O";
  readonly cniVersion: string;
  readonly defaultNetwork: NetworkName;
  /** Whether the runtime passes the pods' annotations. */
  readonly passesAnnotations: boolean;
  readonly hasStandalone: boolean;
  readonly hasAgent: boolean;
  /** Whether the runtime's list of sandboxes is written every half minute. */
  readonly hasList: boolean;
  readonly pods: readonly PodScenario[];
  readonly mischief: readonly Mischief[];
}

export interface PodScenario {
  readonly networks: readonly NetworkName[];
  readonly startMs: number;
  /** Whether it has the name of the pod before it, which is deleted first. */
  readonly isSuccessor: boolean;
  /** Undefined: until the end of the history. */
  readonly lifeMs: number | undefined;
}

/** Something that goes wrong. Numbers of calls, requests and operations count from 1. */
export type Mischief =
  | { readonly kind: "delegate"; readonly nth: number; readonly behaviour: DelegateBehaviour }
  /** It hangs with a child, and its shim is killed. */
  | { readonly kind: "abandoned delegate"; readonly nth: number; readonly afterMs: number }
  | { readonly kind: "slow delegate"; readonly nth: number; readonly durationMs: number }
  | { readonly kind: "request"; readonly nth: number; readonly outcome: RequestOutcome }
  | { readonly kind: "watch"; readonly nth: number; readonly what: "ends" | "expires" | "silent" }
  | { readonly kind: "disk"; readonly nth: number; readonly fault: DiskFault }
  | ({ readonly kind: "disk full" } & Window)
  /** Before the event of that number. */
  | { readonly kind: "kill"; readonly event: number; readonly who: Victim }
  /** SIGSTOP before the event of that number. */
  | { readonly kind: "stop"; readonly event: number; readonly forMs: number }
  | { readonly kind: "power loss"; readonly event: number }
  | ({ readonly kind: "plugin missing"; readonly type: string } & Window)
  | ({ readonly kind: "definition removed"; readonly network: NetworkName } & Window)
  | ({ readonly kind: "definition changed"; readonly network: NetworkName } & Window)
  /** A pod is removed from the API; only later its sandbox is stopped. */
  | ({ readonly kind: "pod removed" } & Window)
  | ({ readonly kind: "API down" } & Window)
  | { readonly kind: "API restart"; readonly atMs: number }
  | { readonly kind: "clock step"; readonly atMs: number; readonly byMs: number }
  | { readonly kind: "plexusd restart"; readonly atMs: number }
  /** The next plexusd starts while this one ends. */
  | { readonly kind: "plexusd upgrade"; readonly atMs: number }
  | { readonly kind: "call"; readonly atMs: number; readonly command: "GC" | "STATUS" | "CHECK" }
  /** The namespace of a pod's sandbox disappears before its DEL. */
  | { readonly kind: "namespace gone"; readonly atMs: number }
  /** A pod is deleted from the API at once, and its sandbox forgotten by the runtime. */
  | { readonly kind: "sandbox forgotten"; readonly atMs: number };

interface Window {
  readonly fromMs: number;
  readonly forMs: number;
}

const victims = ["plexusd", "shim", "runtime", "delegate", "agent"] as const;
export type Victim = (typeof victims)[number];

const behaviours: Readonly<Record<Exclude<DelegateBehaviour, "works">, number>> = {
  "fails before its work": 3,
  "fails after its work": 3,
  "fails between": 3,
  "dies before its work": 1,
  "dies after its work": 2,
  "hangs before its work": 1,
  "hangs after its work": 1,
  "says nothing": 1,
  "says nonsense": 1,
  "leaves a child": 1,
  "hangs with a child": 1,
};

const outcomes: Readonly<Record<Exclude<RequestOutcome, "answered">, number>> = {
  "request lost": 1,
  "answer lost": 1,
  refused: 1,
  broken: 1,
  conflict: 1,
  "too many requests": 1,
  "internal error": 1,
  unavailable: 1,
  old: 1,
};

const kinds: Readonly<Record<Mischief["kind"], number>> = {
  delegate: 12,
  "slow delegate": 3,
  "abandoned delegate": 1,
  request: 5,
  watch: 3,
  disk: 8,
  "disk full": 2,
  kill: 16,
  stop: 2,
  "power loss": 8,
  "plugin missing": 2,
  "definition removed": 1,
  "definition changed": 1,
  "pod removed": 1,
  "API down": 2,
  "API restart": 1,
  "clock step": 1,
  "plexusd restart": 2,
  "plexusd upgrade": 1,
  call: 3,
  "namespace gone": 2,
  "sandbox forgotten": 1,
};

/** The scenario of a seed. */
export function drawScenario(seed: number): Scenario {
  const random = new Random(seed);
  const podCount = Number(random.weighted({ 1: 14, 2: 4, 3: 1 }));
  const mischiefCount = Number(random.weighted({ 0: 1, 1: 8, 2: 5, 3: 2, 5: 1 }));
  return {
    seed,
    runtime: random.chance(0.7) ? "containerd" : "CRI-O",
    cniVersion: random.pick(["1.1.0", "1.0.0", "0.4.0"]),
    defaultNetwork: random.chance(0.6) ? "pods" : "pods-chained",
    passesAnnotations: random.chance(0.3),
    hasStandalone: random.chance(0.2),
    hasAgent: random.chance(0.15),
    hasList: random.chance(0.2),
    pods: Array.from({ length: podCount }, () => drawPod(random)),
    mischief: Array.from({ length: mischiefCount }, () => drawMischief(random)),
  };
}

function drawPod(random: Random): PodScenario {
  const count = Number(random.weighted({ 0: 2, 1: 6, 2: 3 }));
  const networks = Array.from({ length: count }, () => random.pick(requestable));
  const lifeMs = random.chance(0.7) ? random.duration(200, 20_000) : undefined;
  const isSuccessor = random.chance(0.2);
  return { networks, startMs: random.duration(1, 2000), isSuccessor, lifeMs };
}

function drawMischief(random: Random): Mischief {
  const kind = random.weighted(kinds);
  const nth = random.duration(1, 16);
  const event = random.integer(1, 400);
  const atMs = random.duration(50, 20_000);
  const window = { fromMs: atMs, forMs: random.duration(100, 120_000) };
  switch (kind) {
    case "delegate":
      return { kind, nth, behaviour: random.weighted(behaviours) };
    case "slow delegate":
      return { kind, nth, durationMs: random.duration(1000, 50_000) };
    case "abandoned delegate":
      return { kind, nth, afterMs: random.duration(10, 5000) };
    case "request":
      return { kind, nth, outcome: random.weighted(outcomes) };
    case "watch":
      return { kind, nth, what: random.pick(["ends", "expires", "silent"]) };
    case "disk":
      return { kind, nth: random.duration(1, 120), fault: drawDiskFault(random) };
    case "kill":
      return { kind, event, who: random.pick(victims) };
    case "power loss":
      return { kind, event };
    case "stop":
      return { kind, event, forMs: random.duration(1000, 600_000) };
    case "plugin missing":
      return drawMissingPlugin(random, window);
    case "definition removed":
    case "definition changed":
      return { kind, network: random.pick(requestable), ...window };
    case "disk full":
    case "API down":
    case "pod removed":
      return { kind, ...window };
    case "clock step":
      return { kind, atMs, byMs: random.duration(1000, 1e9) * (random.chance(0.5) ? 1 : -1) };
    case "call":
      return { kind, atMs, command: random.pick(["GC", "STATUS", "CHECK"]) };
    default:
      return { kind, atMs };
  }
}

/** Seldom for longer than Plexus waits for it. */
function drawMissingPlugin(random: Random, { fromMs, forMs }: Window): Mischief {
  const type = random.pick(["ptp", "macvlan", "bridge", "host-route", "host-device"]);
  const isLost = random.chance(0.1);
  return { kind: "plugin missing", type, fromMs, forMs: isLost ? 400_000 + forMs : forMs };
}

function drawDiskFault(random: Random): DiskFault {
  return random.weighted({ "process killed": 6, "power lost": 6, ENOSPC: 2, EIO: 2, EROFS: 1 });
}
