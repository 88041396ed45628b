import type { ApiServer } from "../api/api-server.ts";
import type { Endpoints } from "../node/endpoints.ts";
import type { Kubelet } from "../node/kubelet.ts";
import type { MeshAgent } from "../node/mesh-agent.ts";
import type { NetworkName } from "../node/networks.ts";
import type { Plexusd } from "../node/plexusd.ts";
import type { Runtime } from "../node/runtime.ts";
import type { Properties } from "../properties.ts";
import type { Attached } from "../world/attached.ts";
import type { World } from "../world/world.ts";
import type { PlannedFaults } from "./planned-faults.ts";
import type { Scenario } from "./scenario.ts";

/** A runtime, and what has it run pods or containers. */
export type Side = Pick<Stage, "runtime" | "kubelet">;

/** All runtimes of the node. */
export function sidesOf({ runtime, kubelet, second }: Stage): readonly Side[] {
  return [{ runtime, kubelet }, ...(second === undefined ? [] : [second])];
}

interface EditedPod {
  readonly networks: readonly NetworkName[];
  /** What was attached and stays, as the edit breaks a rule. */
  readonly kept: readonly Attached[];
  /** Whether this edit or an earlier one has another element with `default-route`, which a running pod refuses. */
  readonly hasMoved: boolean;
}

/** Everything that takes part in a history. */
export interface Stage {
  readonly scenario: Scenario;
  readonly world: World;
  readonly faults: PlannedFaults;
  readonly properties: Properties;
  readonly api: ApiServer;
  readonly runtime: Runtime;
  readonly kubelet: Kubelet;
  /** A second runtime, and what has it run containers. */
  readonly second: Side | undefined;
  /** The running plexusd; undefined while none is. */
  plexusd: Plexusd | undefined;
  /** The running replicas of `plexusctl endpoints`. */
  readonly endpoints: Set<Endpoints>;
  /** The running agent of a service mesh. */
  meshAgent: MeshAgent | undefined;
  /** Whether the agent has ended cleanly, for good. */
  isMeshGone: boolean;
  /** Whether plexusd has brought back the agent's plugin, and ended before it could notice. */
  isMeshRevived: boolean;
  /** By UID: the networks of pods whose annotation was edited, and what the edit must not remove. */
  readonly edited: Map<string, EditedPod>;
  /** Whether plexusd is not started. */
  isAway: boolean;
  /** Whether the machine runs. */
  isOn: boolean;
}
