import type { CniArgs } from "#cni/args.ts";
import type { HotPlugProblem } from "#engine/hotplug/reports/conditions.ts";
import type { LastAttempt } from "#engine/hotplug/reports/outcome.ts";
import type { PodName, PodState, StatusFailure } from "#engine/ports/cluster.ts";
import type { Condition } from "#lib/condition.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FindingReason, Reason } from "#lib/reasons.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";
import type { Failure } from "./explain-error.ts";

/** Where the state of any pod of the cluster comes from. */
export interface PodStates {
  /** Undefined when there is no such pod. @throws CniError 11 when the API does not answer */
  find(pod: PodName): Promise<PodState | undefined>;
}

/** One network of a pod, as it would be attached now. */
export interface ExplainedNetwork {
  /** `namespace/name` of the definition, or the CNI name. */
  readonly network: string;
  readonly isDefault: boolean;
  /** Absent when its configuration cannot be used. */
  readonly cniName?: string;
  readonly ifName?: string;
  readonly addresses?: readonly string[];
  readonly device?: string;
  /** The types of its plugins, in order; absent when its configuration cannot be used. */
  readonly plugins?: readonly string[];
  /** Who attached it instead of Plexus, as network-status says. */
  readonly attachedBy?: string;
  /** What its plugins are asked for by capability, and in CNI_ARGS. */
  readonly runtimeConfig?: JsonObject;
  readonly cniArgs?: CniArgs;
  /** Whether its definition has changed since it was attached. @default false, or not known */
  readonly isOutdated?: boolean;
  /** Whether the pod lacks it, and only the configuration names it, for pods to come. @default false */
  readonly isConfigured?: boolean;
  /** Whether the pod has it although neither annotation nor configuration request it. @default false */
  readonly isUnrequested?: boolean;
  /** Ranges of the cluster to which the pod's packets leave by this network, not by the default one. */
  readonly shadows?: readonly string[];
  /** What hot-plug still has to do, or could not; absent when it has done all. */
  readonly pending?: "plug" | "unplug";
  /** The requests of the pod that it was attached without. */
  readonly ignored?: readonly IgnoredRequest[];
}

/** How hot-plug works on the running pod. */
export interface ExplainedHotPlug extends Omit<LastAttempt, "problems"> {
  readonly problems: readonly ExplainedProblem[];
}

/** What an ADD would find wrong with the pod now. */
export interface ExplainedProblem extends Failure {
  /** As in {@link ExplainedNetwork}; absent where it concerns the whole pod. */
  readonly network?: string;
  /** Whether the configuration attaches the pod nevertheless. @default false */
  readonly isTolerated?: boolean;
}

/** A problem of the plan of an ADD or of hot-plug, as explanations have it. */
export function explainedProblem(problem: HotPlugProblem): ExplainedProblem {
  const { error, network, ifName, isTolerated } = problem;
  const name = ifName === undefined ? network : `${network} (${ifName})`;
  const { reason, code, text: message } = error;
  const subject = error.subject === network ? name : (error.subject ?? name);
  return omitUndefined({ network, subject, isTolerated, reason, code, message });
}

/** How a call for a pod ended. */
export interface CallRecord extends Partial<Failure> {
  readonly command: string;
  /** Absent where plexus-standalone has reported the call. */
  readonly containerId?: string;
  /**
   * ISO 8601: when it began. An ADD may fail after plexus-standalone has attached another sandbox of
   * the pod, if plexusd was stopped during the call.
   */
  readonly at: string;
}

/** An address that the IPAM plugin host-local has given to a container. */
export interface Lease {
  readonly address: string;
  readonly containerId: string;
  /** Its file on the node. */
  readonly path: string;
}

/** Finds what host-local has given away of a network (CNI name). */
export type FindLeases = (network: string) => Promise<readonly Lease[]>;

/** The node, as plexusd sees it. */
export interface NodeFacts {
  readonly name: string;
  /** Whether the container runtime calls Plexus; undefined where plexusd does not write the configuration. */
  readonly conf?: Condition;
}

/** What the attachment record says. */
export interface ExplainedRecord {
  readonly createdAt: string;
  readonly containerId: string;
  /** Why the pod does not show its network-status; absent if the last write succeeded. */
  readonly statusFailure?: StatusFailure;
  /** Absent when the ADD has ended. */
  readonly add?: "running" | "interrupted";
  readonly teardownError?: string;
  /** Absent where a plugin gave the error. */
  readonly teardownReason?: Reason;
}

/** The one sentence: what is the matter with the pod's networks, and what to do about it. */
export interface Advice {
  readonly finding: FindingReason;
  readonly sentence: string;
  /** Whether nothing is wrong: warnings alone are. */
  readonly ok: boolean;
  /** The network that it concerns, with the interface if that is known. */
  readonly subject?: string;
}

/** Everything that Plexus knows about a pod's networks. */
export interface Explanation {
  readonly pod: PodName &
    Partial<Pick<PodState, "uid" | "node" | "hostNetwork" | "phase" | "isTerminating">>;
  readonly node: NodeFacts;
  readonly annotation?: string;
  readonly networks: readonly ExplainedNetwork[];
  /** The first is the one for which an ADD would fail, unless it is tolerated. */
  readonly problems: readonly ExplainedProblem[];
  readonly record?: ExplainedRecord;
  /** Absent where `hotPlug` is off for the pod, and before the first attempt. */
  readonly hotPlug?: ExplainedHotPlug;
  /** The interfaces in the pod's network-status; absent when it has none that can be read. */
  readonly published?: readonly string[];
  /** The last ADD and the last DEL of the pod since plexusd started. */
  readonly calls: readonly CallRecord[];
  readonly advice: Advice;
}
