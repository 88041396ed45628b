import { type NetworkName, networks } from "../../node/networks.ts";
import type { Random } from "../../world/random.ts";
import type { Mischief } from "./mischief.ts";

interface EditedPod {
  readonly startMs: number;
  readonly edits: readonly {
    readonly afterMs: number;
    readonly networks: readonly NetworkName[];
  }[];
}

/** An edit is carried out by so many events of a process. */
const eventsMax = 40;

/** What goes wrong while edits of running pods are carried out, besides the scenario's own. */
export function drawEditMischief(random: Random, pods: readonly EditedPod[]): Mischief[] {
  const edits = pods.flatMap(({ startMs, edits: ofPod }) =>
    ofPod.map(({ afterMs, networks: requested }) => ({ atMs: startMs + afterMs, requested })),
  );
  const count = Number(random.weighted({ 0: 4, 1: 4, 2: 2 }));
  return Array.from({ length: count }, () => drawOne(random, random.pick(edits)));
}

const kinds = {
  "plugin missing": 3,
  "definition mistyped": 3,
  "definition removed": 1,
  "definition changed": 2,
  "DEL failing": 3,
  "disk full": 2,
  kill: 5,
  stop: 2,
  suspend: 1,
  "plexusd restart": 3,
  "plexusd upgrade": 1,
} as const;

function drawOne(
  random: Random,
  { atMs, requested }: { readonly atMs: number; readonly requested: readonly NetworkName[] },
): Mischief {
  const network = requested.length === 0 ? "storage" : random.pick(requested);
  const fromMs = Math.max(1, atMs - random.duration(1, 500));
  const window = { fromMs, forMs: random.duration(100, 60_000) };
  const soonMs = atMs + random.duration(1, 200);
  const kind = random.weighted(kinds);
  switch (kind) {
    case "plugin missing":
    case "DEL failing":
      return { kind, type: random.pick(networks[network]), ...window };
    case "definition mistyped":
    case "definition removed":
    case "definition changed":
      return { kind, network, ...window };
    case "disk full":
      return { kind, ...window };
    case "kill":
      return { kind, ...drawMoment(random, atMs), slowMs: undefined };
    case "stop":
      return { kind, ...drawMoment(random, atMs), forMs: random.duration(500, 8000) };
    case "suspend":
      return { kind, atMs: soonMs, byMs: random.duration(1000, 600_000) };
    default:
      return { kind, atMs: soonMs };
  }
}

/** In the middle of an edit. */
function drawMoment(
  random: Random,
  atMs: number,
): {
  readonly of: "agent" | "plexusd" | "delegate";
  readonly event: number;
  readonly fromMs: number;
} {
  const of = random.weighted({ agent: 3, plexusd: 2, delegate: 1 });
  return { of, event: random.duration(1, eventsMax), fromMs: atMs };
}
