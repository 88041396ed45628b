import type { CallRecord, Explanation } from "#engine/explain/explanation.ts";
import type { Condition } from "#lib/condition.ts";

/** Everything of an explanation but its conclusion. */
export type Facts = Omit<Explanation, "advice"> & {
  readonly sourceProblem?: string;
  /** Networks that the running pod asks for and does not have, as nothing has attached them. */
  readonly missing: readonly string[];
  /** Whether the pod has an IP address: of a running one without it, the sandbox is gone. */
  readonly hasAddress: boolean;
  /** Why a record that may be the pod's cannot be used, or what the pod's record lacks. */
  readonly damagedRecord?: string;
  /** How many earlier sandboxes of the pod are attached, as no DEL came. @default 0 */
  readonly replaced?: number;
  /** Whether edits of the pod's annotation change its networks while it runs. */
  readonly isHotPluggable: boolean;
  /** What other parts have found about the pod. */
  readonly stated: readonly Condition[];
};

/** Says what is the matter, if it applies. */
export type Rule = (facts: Facts) => Condition | undefined;

/** Attached, and not by another meta-plugin alone. */
export function isRunning({ pod, record }: Facts): boolean {
  return pod.phase === "Running" && record !== undefined;
}

/** What is known of the last ADD. */
export function lastAdd(calls: readonly CallRecord[]): CallRecord | undefined {
  return calls.find(({ command }) => command === "ADD");
}

/** Whether a DEL succeeded, and no ADD was after it. */
export function isDetached(calls: readonly CallRecord[]): boolean {
  const last = calls.at(-1);
  return last?.command === "DEL" && last.message === undefined;
}

/** By Plexus, or by another meta-plugin before it. */
export function isAttached({ record, networks }: Facts): boolean {
  return record !== undefined || networks.some(({ attachedBy }) => attachedBy !== undefined);
}

/** Another meta-plugin may not have attached all, or not say how it did. */
export function listOf(networks: Facts["networks"]): string {
  const attached = networks.filter(({ ifName }) => ifName !== undefined);
  return attached.map(({ ifName, network }) => `${ifName}=${network}`).join(", ");
}
