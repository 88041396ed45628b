import type { NodeConfStatus } from "#daemon/cni-conf/status.ts";
import type { Setting } from "#daemon/config/settings.ts";
import type { FailedAdds } from "#engine/explain/call-history.ts";
import type { Condition } from "#lib/condition.ts";
import type { LifeState } from "#serving/life.ts";
import type { AgentPlugins } from "./agent-plugins.ts";
import type { MultusLeftovers } from "./multus-leftovers.ts";

/** The status of plexusd and its node: the answer to `/node`. */
export interface NodeStatus {
  readonly version: string;
  readonly commit: string;
  readonly node: string;
  readonly uptimeSeconds: number;
  readonly state: LifeState;
  /** Why it is not ready, a sentence each. */
  readonly notReady: readonly string[];
  /** Absent where it does not write the node's CNI configuration. */
  readonly conf?: NodeConfStatus;
  /** Why the present configuration file cannot be used; absent when it is in effect. */
  readonly configProblem?: string;
  /** What the file in effect says in vain, such as former keys. */
  readonly configWarnings: readonly string[];
  /** Why pods and definitions cannot be looked up; absent when they can. */
  readonly sourceProblem?: string;
  /** Whether the API server knows definitions; absent without an API. */
  readonly definitionsServed?: boolean;
  /** The definitions that were deleted with their CRD. */
  readonly lostDefinitions: readonly string[];
  /** Configured paths that are not mounted into its container, a sentence each. */
  readonly unseenPaths: readonly string[];
  readonly dirs: {
    readonly cniConfDir: string;
    readonly shimDir: string;
    readonly binDirs: readonly string[];
    readonly stateDir: string;
  };
  readonly attachments: number;
  readonly leftovers: number;
  /** Running pods whose networks are not those of their annotation, or whose status is rejected. */
  readonly podProblems: readonly PodProblem[];
  readonly callsInFlight: number;
  readonly failedAdds: readonly FailedAdds[];
  readonly settings: readonly Setting[];
  /** Why new pods start without the network of `auxiliaryCNIChainName`, a sentence each. */
  readonly auxiliaryProblems: readonly string[];
  /** The file with the operator's keys; absent without one. */
  readonly configFile?: string;
  /** Records that cannot be used: why, a sentence each. */
  readonly damagedRecords: readonly string[];
  /** The names of files of records that a DEL could not read, and has set aside. */
  readonly setAside: readonly string[];
  readonly ofMultus: MultusLeftovers;
  /** Absent if no `plexus agent` answers, or plexusd sees no plugins. */
  readonly agent?: AgentPlugins;
  /** What `doctor` prints. */
  readonly conditions: readonly NodeCondition[];
}

/** What is found of a node. */
export interface NodeCondition extends Condition {
  /** What was looked at: `node configuration`. */
  readonly check: string;
}

/** Why a running pod has not the networks of its annotation, or does not show them. */
export interface PodProblem extends Condition {
  /** `namespace/name`. */
  readonly pod: string;
}
