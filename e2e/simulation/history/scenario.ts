import type { EngineConfig } from "#engine/config.ts";
import { isGateway, type NetworkName, requestable } from "../node/networks.ts";
import { Random } from "../world/random.ts";
import { drawCrowd } from "./crowd.ts";
import { drawEditMischief } from "./draw/edit-mischief.ts";
import { drawEndpoints, type EndpointsScenario } from "./draw/endpoints.ts";
import { drawKinds, drawMischief, type Mischief } from "./draw/mischief.ts";
import { drawPluginMischief } from "./draw/plugins.ts";
import { drawStatuses, type StatusScenario } from "./draw/statuses.ts";
import { drawOthers, type Others } from "./others.ts";

/** What one history is about. The seed decides it, and all delays and orders. */
export interface Scenario extends Pick<StatusScenario, "isStatic" | "changesStatuses"> {
  readonly seed: number;
  readonly runtime: "containerd" | "CRI-O";
  readonly cniVersion: string;
  readonly defaultNetwork: NetworkName;
  /** Whether the runtime passes the pods' annotations. */
  readonly passesAnnotations: boolean;
  readonly hasStandalone: boolean;
  /** Whether it stays for some seconds after its last call. */
  readonly lingers: boolean;
  /** With `hotPlug`, it may attach networks to running pods. */
  readonly hasAgent: boolean;
  readonly hotPlug: boolean;
  /** Whether pods keep routes to the cluster by their primary network. */
  readonly keepsCluster: boolean;
  /** Whether it lasts until plexusd has swept the state directory, if there is something to sweep. */
  readonly isSwept: boolean;
  readonly pods: readonly PodScenario[];
  readonly mischief: readonly Mischief[];
  readonly publishStatus: EngineConfig["publishStatus"];
  readonly others: Others;
  readonly service: EndpointsScenario["service"];
}

export interface PodScenario {
  readonly networks: readonly NetworkName[];
  readonly startMs: number;
  /** Whether it has the name of the pod before it, which is deleted first. */
  readonly isSuccessor: boolean;
  /** Undefined: until the end of the history. */
  readonly lifeMs: number | undefined;
  /** Changes of its annotation, with hot-plug. */
  readonly edits: readonly Edit[];
}

interface Edit {
  /** From the pod's start. */
  readonly afterMs: number;
  readonly networks: readonly NetworkName[];
}

/** How large a history is: how probable each number is. */
interface Size {
  readonly pods: Readonly<Record<string, number>>;
  /** Of a pod, besides the default network. */
  readonly networks: Readonly<Record<string, number>>;
  readonly mischief: Readonly<Record<string, number>>;
}

/** Most histories are small. In a large one more faults can meet. */
const sizes: Readonly<Record<"small" | "large", Size>> = {
  small: { pods: { 1: 1 }, networks: { 0: 1, 1: 3, 2: 1 }, mischief: { 1: 2, 2: 2, 3: 1 } },
  large: {
    pods: { 1: 2, 2: 2, 3: 1 },
    networks: { 0: 1, 1: 3, 2: 2 },
    mischief: { 1: 1, 2: 2, 3: 2, 5: 1 },
  },
};

/** The scenario of a seed. */
export function drawScenario(seed: number): Scenario {
  const random = new Random(seed);
  const size = sizes[random.weighted({ small: 4, large: 1 })];
  const podCount = Number(random.weighted(size.pods));
  // Its own numbers, so that histories without hot-plug stay as they were.
  const ofEdits = new Random(seed + 0.25 * 2 ** 32);
  const hotPlug = ofEdits.chance(0.15);
  const node = {
    runtime: random.chance(0.7) ? "containerd" : "CRI-O",
    cniVersion: random.pick(["1.1.0", "1.0.0", "0.4.0"]),
    defaultNetwork: primaryOf(random.chance(0.6) ? "pods" : "pods-chained", { hotPlug, ofEdits }),
    passesAnnotations: random.chance(0.3),
    hasStandalone: random.chance(0.2),
    hasAgent: random.chance(0.15) || hotPlug,
    lingers: random.chance(0.7),
    isSwept: random.chance(0.3),
    pods: Array.from({ length: podCount }, () => ({
      ...drawPod(random, size),
      edits: hotPlug ? drawEdits(ofEdits, size) : [],
    })),
  } as const;
  const kinds = drawKinds(random);
  const mischiefCount = Number(random.weighted(size.mischief));
  const mischief = Array.from({ length: mischiefCount }, () => drawMischief(random, kinds, node));
  const publishStatus = random.pick(["beforeReply", "afterReply"] as const);
  const ofOthers = new Random(seed + 0.75 * 2 ** 32);
  const drawn = drawOthers(ofOthers, node);
  // An agent that cannot see namespaces cannot attach networks.
  const others = hotPlug ? { ...drawn, isAgentBlind: false } : drawn;
  const pods = node.pods.map((pod) => {
    const first = others.hasDevices ? drawDevice(ofOthers) : drawGateway(ofEdits, hotPlug);
    return withFirst(pod, first, ofEdits);
  });
  const ofEdit = hotPlug ? drawEditMischief(ofEdits, pods) : [];
  const mayBeStatic = !hotPlug && !node.passesAnnotations && others.second === undefined;
  const ofStatuses = new Random(seed + 0.375 * 2 ** 32);
  const statuses = drawStatuses(ofStatuses, node, mayBeStatic && !others.hasDevices);
  const isAlone = others.mesh === undefined && others.second === undefined;
  const ofPlugins = drawPluginMischief(new Random(seed + 0.875 * 2 ** 32), {
    ...{ ...node, pods, isAlone },
  });
  const shown = others.isLong ? [] : pods;
  const endpoints = drawEndpoints(new Random(seed + 0.5625 * 2 ** 32), shown);
  const scenario = {
    ...statuses,
    ...{ seed, ...node, pods, hotPlug, publishStatus, others, service: endpoints.service },
    keepsCluster: hotPlug && new Random(seed + 0.4375 * 2 ** 32).chance(0.5),
    hasStandalone: node.hasStandalone || others.hasTwoBootIds,
    hasAgent: node.hasAgent || others.isAgentBlind,
    mischief: [
      ...[...mischief, ...others.mischief, ...ofEdit],
      ...[...statuses.mischief, ...ofPlugins, ...endpoints.mischief],
    ],
  };
  return { ...scenario, ...drawCrowd(new Random(seed + 0.625 * 2 ** 32)) };
}

/** With hot-plug, the primary network often has default routes. */
function primaryOf(
  drawn: "pods" | "pods-chained",
  { hotPlug, ofEdits }: Pick<Scenario, "hotPlug"> & { readonly ofEdits: Random },
): NetworkName {
  if (!hotPlug) return drawn;
  const primary = ofEdits.weighted({ drawn: 1, "pods-routed": 2, "pods-dual": 2 });
  return primary === "drawn" ? drawn : primary;
}

/** A network that is attached by devices. */
function drawDevice(random: Random): NetworkName | "" {
  return random.weighted({ vf: 3, rails: 3, marked: 2, "": 2 });
}

/** One whose element has `default-route`. */
function drawGateway(random: Random, hotPlug: Scenario["hotPlug"]): NetworkName | "" {
  if (!hotPlug) return "";
  return random.weighted({ gateway: 2, "gateway-dual": 2, "": 4 });
}

/**
 * Such a network is the first one of its pod, and some edits keep it: others are refused, if it has
 * `default-route`.
 */
function withFirst(pod: PodScenario, first: NetworkName | "", random: Random): PodScenario {
  if (first === "") return pod;
  let isThere = true;
  const inTurn = pod.edits.toSorted((a, b) => a.afterMs - b.afterMs);
  const edits = inTurn.map((edit) => {
    isThere = random.chance(0.6) && (isThere || !isGateway(first));
    const kept = first === "gateway" && random.chance(0.4) ? "gateway-new" : first;
    return isThere ? { ...edit, networks: [kept, ...edit.networks.slice(1)] } : edit;
  });
  return { ...pod, networks: [first, ...pod.networks.slice(1)], edits };
}

function drawNetworks(random: Random, size: Size, among = requestable): NetworkName[] {
  const count = Number(random.weighted(size.networks));
  return Array.from({ length: count }, () => random.pick(among));
}

/** What edits request: default routes must not become the pod's, and a plugin may not be there, or fail. */
const editable: readonly NetworkName[] = [
  ...requestable,
  "routed",
  "routed",
  "mistyped",
  "forbidden",
  "masterless",
];

function drawEdits(random: Random, size: Size): Edit[] {
  return Array.from({ length: random.integer(1, 2) }, () => ({
    afterMs: random.duration(100, 12_000),
    networks: drawNetworks(random, size, editable),
  }));
}

function drawPod(random: Random, size: Size): Omit<PodScenario, "edits"> {
  const networks = drawNetworks(random, size);
  const lifeMs = random.chance(0.7) ? random.duration(200, 20_000) : undefined;
  const isSuccessor = random.chance(0.2);
  return { networks, startMs: random.duration(1, 2000), isSuccessor, lifeMs };
}
