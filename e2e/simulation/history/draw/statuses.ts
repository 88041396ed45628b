import type { Random } from "../../world/random.ts";
import { drawTimeMs, type Mischief, type Node } from "./mischief.ts";

/** What else happens to network-status. */
export interface StatusScenario {
  /** Whether the pods are static: the API has a mirror of each, with another UID. */
  readonly isStatic: boolean;
  /** Whether a webhook of the API server changes every status that is written. */
  readonly changesStatuses: boolean;
  readonly mischief: readonly Mischief[];
}

const nothing: StatusScenario = { isStatic: false, changesStatuses: false, mischief: [] };

/** @param mayBeStatic whether nothing else depends on the UID that the API has */
export function drawStatuses(random: Random, node: Node, mayBeStatic: boolean): StatusScenario {
  if (!random.chance(0.12)) return nothing;
  const isStatic = mayBeStatic && random.chance(0.5);
  const kinds = isStatic ? ([foreignWrite, newMirror] as const) : ([foreignWrite] as const);
  const mischief = Array.from({ length: random.integer(0, 3) }, () =>
    random.pick(kinds)(random, node),
  );
  return { isStatic, changesStatuses: random.chance(0.3), mischief };
}

function foreignWrite(random: Random, node: Node): Mischief {
  const text = random.pick([null, "[]", '[{"name":"default/foreign","interface":"net1"}]', "[{"]);
  return {
    kind: "foreign status",
    atMs: drawTimeMs(random, node) + random.integer(0, 20_000),
    text,
  };
}

function newMirror(random: Random, node: Node): Mischief {
  return { kind: "new mirror", atMs: drawTimeMs(random, node) + random.integer(0, 20_000) };
}
