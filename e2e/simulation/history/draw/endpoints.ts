import { hasAddresses, type NetworkName } from "../../node/networks.ts";
import type { Random } from "../../world/random.ts";
import type { Mischief } from "./mischief.ts";

/** A Service of a network, whose EndpointSlices two processes write. */
export interface EndpointsScenario {
  /** Undefined: there is none. */
  readonly service: NetworkName | undefined;
  readonly mischief: readonly Mischief[];
}

interface ServedPod {
  readonly networks: readonly NetworkName[];
  readonly edits: readonly Pick<ServedPod, "networks">[];
}

/** Seldom, as such a history takes many events: of a network that pods request. */
export function drawEndpoints(random: Random, pods: readonly ServedPod[]): EndpointsScenario {
  const requested = pods.flatMap((pod) => [pod, ...pod.edits]).flatMap(({ networks }) => networks);
  const served = requested.filter(hasAddresses);
  if (served.length === 0 || !random.chance(0.08)) return { service: undefined, mischief: [] };
  const mischief = Array.from({ length: random.integer(0, 3) }, () => drawOne(random));
  return { service: random.pick(served), mischief };
}

function drawOne(random: Random): Mischief {
  const fromMs = random.duration(1, 20_000);
  const moment = { of: "endpoints", event: random.duration(1, 300), fromMs } as const;
  const kind = random.weighted({ kill: 3, stop: 2, "endpoints restart": 2, request: 3, watch: 2 });
  switch (kind) {
    case "kill":
      return { kind, ...moment, slowMs: undefined };
    case "stop":
      return { kind, ...moment, forMs: random.duration(500, 60_000) };
    case "request":
      return { kind, nth: random.duration(10, 200), outcome: random.pick(outcomes) };
    case "watch":
      return {
        kind,
        nth: random.duration(1, 60),
        what: random.pick(["ends", "expires", "silent"]),
      };
    default:
      return { kind, atMs: fromMs };
  }
}

const outcomes = ["answer lost", "request lost", "late", "conflict", "unavailable"] as const;
