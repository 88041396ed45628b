import { defaultEngineConfig } from "#engine/config.ts";
import { networks } from "../../node/networks.ts";
import type { DelegateBehaviour } from "../../world/faults.ts";
import type { Random } from "../../world/random.ts";
import { drawTimeMs, type Mischief, type Node } from "./mischief.ts";

const addEndings = {
  "fails before its work": 1,
  "fails between": 2,
  "fails after its work": 2,
  "crashes before its work": 1,
  "crashes after its work": 2,
} as const satisfies Partial<Record<DelegateBehaviour, number>>;

/**
 * Seldom: plugins fail for longer than Plexus waits, cannot be executed, or refuse what they accepted.
 * `isAlone`: without the agent of a mesh and a second runtime, which have other configurations.
 */
export function drawPluginMischief(
  random: Random,
  node: Node & { readonly isAlone: boolean },
): Mischief[] {
  if (!random.chance(0.15)) return [];
  const fromMs = drawTimeMs(random, node);
  const isLong = random.chance(0.4);
  const forMs = (isLong ? defaultEngineConfig.delGraceMs : 0) + random.duration(1000, 200_000);
  const names = [node.defaultNetwork, ...node.pods.flatMap((pod) => pod.networks)];
  const chain = networks[random.pick(names)];
  const type = random.pick<string>(chain);
  const failingDel: Mischief = { kind: "DEL failing", type, fromMs, forMs };
  switch (random.weighted({ del: 3, add: 4, executable: 3, next: 3, upgrade: 3 })) {
    case "del":
      return [failingDel];
    case "add": {
      // Also an earlier plugin of the chain, whose DEL fails after the later one has ended the ADD.
      const [how, ended] = [random.weighted(addEndings), random.pick<string>(chain)];
      const failingAdd: Mischief = { kind: "ADD failing", type: ended, how, fromMs: 1, forMs };
      return random.chance(0.7) ? [failingAdd, failingDel] : [failingAdd];
    }
    case "executable":
      return [{ kind: "plugin not executable", type, fromMs, forMs }];
    case "next":
      return !node.isAlone ? [] : [{ kind: "next plugin failing", fromMs: 1, forMs: 20_000 }];
    case "upgrade":
      return !node.isAlone ? [] : [{ kind: "primary upgraded", atMs: fromMs }];
  }
}
