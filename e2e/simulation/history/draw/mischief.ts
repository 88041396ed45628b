import type { Busy } from "../../api/write-queue.ts";
import { type NetworkName, networks, requestable } from "../../node/networks.ts";
import type { DelegateBehaviour, DiskFault, RequestOutcome } from "../../world/faults.ts";
import type { Random } from "../../world/random.ts";

/** Something that goes wrong. Numbers of calls, requests and operations count from 1. */
export type Mischief =
  | { readonly kind: "delegate"; readonly nth: number; readonly behaviour: DelegateBehaviour }
  /** It hangs with a child, and its shim is killed. */
  | { readonly kind: "abandoned delegate"; readonly nth: number; readonly afterMs: number }
  | { readonly kind: "slow delegate"; readonly nth: number; readonly durationMs: number }
  | { readonly kind: "request"; readonly nth: number; readonly outcome: RequestOutcome }
  | { readonly kind: "watch"; readonly nth: number; readonly what: "ends" | "expires" | "silent" }
  | {
      readonly kind: "disk";
      readonly of: DiskChange;
      /** Of these changes. */
      readonly nth: number;
      readonly fault: DiskFault;
    }
  | ({ readonly kind: "disk full" } & Window)
  /** The next plugin may then take long. */
  | ({ readonly kind: "kill"; readonly of: Victim; readonly slowMs: number | undefined } & Moment)
  /** SIGSTOP. Only plexusd is stopped for longer than others wait. */
  | ({ readonly kind: "stop"; readonly of: Victim; readonly forMs: number } & Moment)
  | ({ readonly kind: "power loss" } & Moment)
  | ({ readonly kind: "plugin missing"; readonly type: string } & Window)
  | ({ readonly kind: "DEL failing"; readonly type: string } & Window)
  | ({
      readonly kind: "ADD failing";
      readonly type: string;
      readonly how: DelegateBehaviour;
    } & Window)
  /** It is there, and cannot be executed. */
  | ({ readonly kind: "plugin not executable"; readonly type: string } & Window)
  /** The plugin that the runtime executes after Plexus's fails, and the runtime forgets its sandboxes. */
  | ({ readonly kind: "next plugin failing" } & Window)
  /** In place, so that it refuses what it accepted before. */
  | { readonly kind: "primary upgraded"; readonly atMs: number }
  /** How writes of statuses end meanwhile. */
  | ({ readonly kind: "PATCHes"; readonly outcome: RequestOutcome } & Window)
  /** Where it is installed, plexus-standalone serves all calls. */
  | ({ readonly kind: "plexusd away" } & Window)
  | ({ readonly kind: "definition removed"; readonly network: NetworkName } & Window)
  | ({ readonly kind: "definition changed"; readonly network: NetworkName } & Window)
  /** It names a plugin that is not installed. */
  | ({ readonly kind: "definition mistyped"; readonly network: NetworkName } & Window)
  /** A pod is removed from the API; only later its sandbox is stopped. */
  | ({ readonly kind: "pod removed" } & Window)
  /** Just before its end, plexusd may be killed. */
  | ({ readonly kind: "API down"; readonly killsPlexusd: boolean } & Window)
  /** It works on few writes at a time, and refuses those for which it has no room. */
  | ({ readonly kind: "API busy" } & Busy & Window)
  | { readonly kind: "API restart"; readonly atMs: number }
  | { readonly kind: "clock step"; readonly atMs: number; readonly byMs: number }
  /** The machine sleeps: its monotonic clock does not count the time. */
  | { readonly kind: "suspend"; readonly atMs: number; readonly byMs: number }
  | { readonly kind: "plexusd restart"; readonly atMs: number }
  /** The next plexusd starts while this one ends. */
  | { readonly kind: "plexusd upgrade"; readonly atMs: number }
  /** Of all replicas of `plexusctl endpoints`, as in a rollout. */
  | { readonly kind: "endpoints restart"; readonly atMs: number }
  | { readonly kind: "call"; readonly atMs: number; readonly command: RuntimeCommand }
  /** Of the second runtime. */
  | { readonly kind: "second call"; readonly atMs: number; readonly command: RuntimeCommand }
  /** The namespace of a pod's sandbox disappears before its DEL. */
  | { readonly kind: "namespace gone"; readonly atMs: number }
  /** The runtime forgets a sandbox. Its pod is deleted, or the sandbox's namespace stays. */
  | { readonly kind: "sandbox forgotten"; readonly atMs: number; readonly keepsPod: boolean }
  /** Another component writes the status of a pod, or removes it. */
  | { readonly kind: "foreign status"; readonly atMs: number; readonly text: string | null }
  /** The kubelet makes the mirror of a static pod anew. */
  | { readonly kind: "new mirror"; readonly atMs: number };

type RuntimeCommand = "GC" | "STATUS" | "CHECK";

/** Before the event of that number among those of such processes; undefined: of all processes. */
interface Moment {
  readonly of: Victim | undefined;
  readonly event: number;
  /** Since when they are counted. @default the beginning */
  readonly fromMs?: number;
}

interface Window {
  readonly fromMs: number;
  readonly forMs: number;
}

/** Processes by the first word of their names, and how many events each pod brings them. */
const victims = { plexusd: 45, shim: 22, runtime: 8, delegate: 16, agent: 6 } as const;
type NodeVictim = keyof typeof victims;
/** Those of endpoints are drawn by endpoints.ts. */
type Victim = NodeVictim | "endpoints";
/** The events that each pod brings all processes. */
const podEvents = 110;

/** Changes of the disk, and how many each pod brings. */
const diskChanges = { any: 45, create: 5, write: 9, rename: 2, unlink: 4, fsync: 6 } as const;
type DiskChange = keyof typeof diskChanges;

const behaviours: Readonly<Record<Exclude<DelegateBehaviour, "works">, number>> = {
  "fails before its work": 3,
  "fails after its work": 3,
  "fails between": 3,
  "crashes before its work": 0,
  "crashes after its work": 0,
  "dies before its work": 1,
  "dies after its work": 2,
  "hangs before its work": 1,
  "hangs after its work": 1,
  "says nothing": 1,
  "says nonsense": 1,
  "leaves a child": 1,
  "hangs with a child": 1,
};

/** Those of a whole outage are drawn by others.ts. */
type OutageOutcome = "answered" | "late" | "bad request" | "forbidden" | "invalid";

const outcomes: Readonly<Record<Exclude<RequestOutcome, OutageOutcome>, number>> = {
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

/** Others are drawn by others.ts, edit-mischief.ts, statuses.ts, endpoints.ts and crowd.ts. */
type Kinds = Readonly<Record<Exclude<Mischief["kind"], OthersKind>, number>>;
type OthersKind =
  | "definition mistyped"
  | "DEL failing"
  | "ADD failing"
  | "plugin not executable"
  | "next plugin failing"
  | "primary upgraded"
  | "PATCHes"
  | "plexusd away"
  | "suspend"
  | "second call"
  | "foreign status"
  | "new mirror"
  | "API busy"
  | "endpoints restart";

const kinds: Kinds = {
  delegate: 12,
  "slow delegate": 3,
  "abandoned delegate": 1,
  request: 5,
  watch: 3,
  disk: 8,
  "disk full": 2,
  kill: 12,
  stop: 2,
  "power loss": 5,
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

/** What faults concern: a part of the scenario. */
export interface Node {
  readonly pods: readonly {
    readonly networks: readonly NetworkName[];
    readonly startMs: number;
    readonly lifeMs: number | undefined;
  }[];
  readonly defaultNetwork: NetworkName;
  readonly hasAgent: boolean;
}

/** Which kinds a history may have: all, or some, which then meet more often. */
export function drawKinds(random: Random): Kinds {
  if (random.chance(0.5)) return kinds;
  const some = Array.from({ length: 3 }, () => [random.weighted(kinds), 1]);
  return Object.fromEntries(some) as Kinds;
}

export function drawMischief(random: Random, among: Kinds, node: Node): Mischief {
  const kind = random.weighted(among);
  const nth = drawUpTo(random, 2 + 7 * node.pods.length);
  const nthCall = drawUpTo(random, delegateCalls(node));
  const atMs = drawTimeMs(random, node);
  const window = { fromMs: atMs, forMs: random.duration(100, 120_000) };
  switch (kind) {
    case "delegate":
      return { kind, nth: nthCall, behaviour: random.weighted(behaviours) };
    case "slow delegate":
      return { kind, nth: nthCall, durationMs: random.duration(1000, 50_000) };
    case "abandoned delegate":
      return { kind, nth: nthCall, afterMs: random.duration(10, 5000) };
    case "request":
      return { kind, nth, outcome: random.weighted(outcomes) };
    case "watch":
      return { kind, nth, what: random.pick(["ends", "expires", "silent"]) };
    case "disk": {
      const of = random.weighted({ any: 4, create: 1, write: 1, rename: 1, unlink: 1, fsync: 2 });
      const most = diskChanges[of] * node.pods.length;
      return { kind, of, nth: drawUpTo(random, most), fault: drawDiskFault(random) };
    }
    case "kill":
      return {
        ...{ kind, ...drawMoment(random, drawVictim(random, node), node) },
        slowMs: random.chance(0.25) ? random.duration(1000, 60_000) : undefined,
      };
    case "power loss": {
      const of = random.chance(0.5) ? drawVictim(random, node) : undefined;
      return { kind, ...drawMoment(random, of, node) };
    }
    case "stop":
      return drawStop(random, random.chance(0.7) ? "plexusd" : drawVictim(random, node), node);
    case "sandbox forgotten":
      return { kind, atMs, keepsPod: random.chance(0.5) };
    case "plugin missing":
      return drawMissingPlugin(random, window, node);
    case "definition removed":
    case "definition changed":
      return { kind, network: random.pick(requestable), ...window };
    case "API down":
      return { kind, killsPlexusd: random.chance(0.5), ...window };
    case "disk full":
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

function drawVictim(random: Random, { hasAgent }: Node): NodeVictim {
  const names = Object.keys(victims) as NodeVictim[];
  return random.pick(hasAgent ? names : names.filter((name) => name !== "agent"));
}

function drawStop(random: Random, of: NodeVictim, node: Node): Mischief {
  const forMs = random.duration(1000, of === "plexusd" ? 600_000 : 8000);
  return { kind: "stop", ...drawMoment(random, of, node), forMs };
}

/** A moment that most histories with so many pods reach. */
function drawMoment<Of extends NodeVictim | undefined>(
  random: Random,
  of: Of,
  node: Node,
): { of: Of; event: number } {
  const perPod = of === undefined ? podEvents : victims[of];
  return { of, event: drawUpTo(random, perPod * node.pods.length) };
}

/** Any number or, as often, rather a small one. */
function drawUpTo(random: Random, most: number): number {
  return random.chance(0.5) ? random.integer(1, most) : random.duration(1, most);
}

/** How many delegates run for all ADDs and DELs. */
function delegateCalls({ pods, defaultNetwork }: Node): number {
  const names = pods.flatMap((pod) => [defaultNetwork, ...pod.networks]);
  return names.reduce((sum, name) => sum + 2 * networks[name].length, 0);
}

/** Often when a pod starts or ends: most faults matter then. */
export function drawTimeMs(random: Random, { pods }: Node): number {
  const anyMs = random.duration(50, 20_000);
  const { startMs, lifeMs = anyMs } = random.pick(pods);
  const moment = random.weighted({ any: 2, start: 1, end: 2 });
  if (moment === "any") return anyMs;
  return Math.max(1, startMs + (moment === "end" ? lifeMs : 0) + random.integer(-300, 300));
}

/** One that a pod uses. Seldom for longer than Plexus waits for it. */
function drawMissingPlugin(
  random: Random,
  { fromMs, forMs }: Window,
  { pods, defaultNetwork }: Node,
): Mischief {
  const used = [defaultNetwork, ...pods.flatMap((pod) => pod.networks)].flatMap(
    (name): readonly string[] => networks[name],
  );
  const type = random.pick(used);
  const isLost = random.chance(0.1);
  return { kind: "plugin missing", type, fromMs, forMs: isLost ? 400_000 + forMs : forMs };
}

function drawDiskFault(random: Random): DiskFault {
  return random.weighted({ "process killed": 6, "power lost": 6, ENOSPC: 2, EIO: 2, EROFS: 1 });
}
