import type { Mesh } from "../node/mesh-agent.ts";
import type { NetworkName } from "../node/networks.ts";
import type { Random } from "../world/random.ts";
import { drawTimeMs, type Mischief, type Node } from "./draw/mischief.ts";

/** A second container runtime beside the kubelet's, with its own list and its own containers. */
interface SecondRuntime {
  readonly defaultNetwork: NetworkName;
  /** The paths of `nerdctl` are of processes, those of `cnitool` have names. */
  readonly client: "cnitool" | "nerdctl";
  readonly containers: readonly { readonly startMs: number; readonly lifeMs: number | undefined }[];
}

export interface MeshScenario {
  readonly mesh: Mesh;
  /** Whether it had patched the primary CNI's file before Plexus was installed. */
  readonly wasFirst: boolean;
  readonly startMs: number;
  readonly lifeMs: number | undefined;
}

/** Who and what else is on the node: some histories have one of them, most have none. */
export interface Others {
  /** Whether plexusd's container sees another boot ID than the node, which then is a container. */
  readonly hasTwoBootIds: boolean;
  /** Of the machine, when the history begins. */
  readonly uptimeMs: number;
  readonly second: SecondRuntime | undefined;
  /** An agent that appends its plugin to the node's configuration. */
  readonly mesh: MeshScenario | undefined;
  /** Whether pods get a device, which the next pod has after them. */
  readonly hasDevices: boolean;
  /** Whether it lasts until grace periods are over, with calls meanwhile. */
  readonly isLong: boolean;
  /** Whether `plexus agent` sees no mounted namespace, as in another mount namespace. */
  readonly isAgentBlind: boolean;
  /** Happens besides the scenario's own. */
  readonly mischief: readonly Mischief[];
}

const dayMs = 24 * 3_600_000;

export function drawOthers(random: Random, node: Node): Others {
  const what = random.weighted({
    none: 57,
    mesh: 6,
    boots: 8,
    second: 10,
    devices: 8,
    statuses: 8,
    blind: 3,
  });
  const uptimeMs = random.duration(1, 30 * dayMs);
  const mischief = Array.from({ length: random.integer(0, 2) }, () =>
    drawMischiefOf(random, what, node),
  ).flat();
  return {
    hasTwoBootIds: what === "boots",
    uptimeMs,
    mesh: what === "mesh" ? drawMesh(random) : undefined,
    second: what === "second" ? drawSecond(random) : undefined,
    hasDevices: what === "devices",
    isAgentBlind: what === "blind",
    isLong: what !== "none" && random.chance(0.3),
    mischief,
  };
}

function drawMesh(random: Random): MeshScenario {
  return {
    mesh: random.pick(["istio", "linkerd"]),
    wasFirst: random.chance(0.3),
    startMs: random.duration(1, 10_000),
    lifeMs: random.chance(0.4) ? random.duration(100, 60_000) : undefined,
  };
}

function drawSecond(random: Random): SecondRuntime {
  return {
    defaultNetwork: random.pick(["pods", "pods-chained", "data", "strict"]),
    client: random.pick(["cnitool", "nerdctl"]),
    containers: Array.from({ length: random.integer(1, 3) }, () => ({
      startMs: random.duration(1, 5000),
      lifeMs: random.chance(0.6) ? random.duration(200, 20_000) : undefined,
    })),
  };
}

function drawMischiefOf(random: Random, what: string, node: Node): Mischief[] {
  const atMs = drawTimeMs(random, node);
  switch (what) {
    case "boots":
      return random.chance(0.7)
        ? [{ kind: "plexusd away", fromMs: atMs, forMs: random.duration(1000, 1_200_000) }]
        : [{ kind: "suspend", atMs, byMs: random.duration(1000, dayMs) }];
    case "second":
      if (random.chance(0.4)) {
        const type = random.pick(["ptp", "bridge"]);
        return [{ kind: "DEL failing", type, fromMs: atMs, forMs: random.duration(100, 60_000) }];
      }
      return [{ kind: "second call", atMs, command: random.pick(["GC", "GC", "STATUS", "CHECK"]) }];
    case "devices":
      return [
        { kind: "DEL failing", type: "sriov", fromMs: atMs, forMs: random.duration(100, 60_000) },
      ];
    case "statuses":
      return drawStatusOutage(random, atMs, node);
    default:
      return [];
  }
}

/** Writes of statuses fail, while sandboxes of a pod follow each other. */
function drawStatusOutage(random: Random, fromMs: number, node: Node): Mischief[] {
  const outcome = random.pick([
    ...(["bad request", "forbidden", "invalid", "too many requests"] as const),
    ...(["request lost", "answer lost", "unavailable", "late"] as const),
  ]);
  const forMs = random.duration(1000, 120_000);
  const replaced = Array.from({ length: random.integer(0, 3) }, (): Mischief => {
    const atMs = random.chance(0.5) ? drawTimeMs(random, node) : fromMs + random.integer(1, forMs);
    return random.chance(0.7)
      ? { kind: "namespace gone", atMs }
      : { kind: "sandbox forgotten", atMs, keepsPod: true };
  });
  return [{ kind: "PATCHes", outcome, fromMs, forMs }, ...replaced];
}
