import { CniError } from "#cni/error.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { assignDevices } from "#engine/plan/devices/assign-devices.ts";
import { assignInterfaceNames } from "#engine/plan/interface-names.ts";
import { plannedAttachment } from "#engine/plan/plan-attachments.ts";
import type { PlannedAttachment, ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { attempt, attemptAll, type PlanContext, type PlanProblem } from "#engine/plan/problems.ts";
import { recordedNetwork } from "#engine/plan/recorded-network.ts";
import { repeatedNetworkProblems } from "#engine/plan/repeated-networks.ts";
import { resolveSelection } from "#engine/plan/requested-networks.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { checkSizeWithResults, plannedSize } from "#engine/record/record-size.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";

/** A running sandbox whose networks change. */
export interface SandboxToChange {
  readonly pod: Pod;
  /** With the attachments that stay. */
  readonly record: AttachmentRecord;
  readonly additions: readonly NetworkSelection[];
  /** The interfaces in its network namespace that stay. */
  readonly links: ReadonlySet<string>;
  /** CNI_PATH for the plugins. */
  readonly path: readonly string[];
}

/** The networks to plug, and the size of the record with all of them. */
export interface PlannedAdditions {
  readonly attachments: readonly PlannedAttachment[];
  readonly recordBytes: number;
}

/**
 * Plans the networks to plug with the rules of an ADD. Problems are collected, and a network with
 * one is left out.
 */
export async function planAdditions(
  ctx: CallContext & { readonly problems: PlanProblem[] },
  sandbox: SandboxToChange,
): Promise<PlannedAdditions> {
  const { record, additions, pod } = sandbox;
  const earlier = record.attachments.map((each) => recordedNetwork(each, ctx.config));
  const resolved = await resolveAll(ctx, pod, additions);
  const all = [...earlier, ...resolved];
  await attempt(ctx, () => checkLimit(limits.networks, all.length, "the pod"));
  ctx.problems.push(...repeatedNetworkProblems(all));
  const devicesInUse = record.attachments.flatMap(({ device }) => device?.id ?? []);
  // Without its device, a network would be attached to another one or to none.
  const strict = {
    ...ctx,
    devicesInUse,
    config: { ...ctx.config, missingDevice: "fail" } as const,
  };
  const networks = await assignDevices(strict, pod, resolved);
  const names = interfaceNames(ctx, sandbox, networks);
  const { containerId } = record;
  const cniArgs = record.attachments[0]?.cniArgs ?? [];
  const planned = networks.map((network, i) => {
    const call = { containerId, cniArgs, path: sandbox.path, ifName: names[i] as string };
    return plannedAttachment(ctx, network, call);
  });
  const recordBytes = (await attempt(ctx, () => sizeOf(sandbox, [...earlier, ...planned]))) ?? 0;
  const rejected = ctx.problems.map(({ network }) => network);
  const isRejected = ({ displayName }: ResolvedNetwork): boolean =>
    rejected.includes(undefined) || rejected.includes(displayName);
  return { attachments: planned.filter((each) => !isRejected(each)), recordBytes };
}

function resolveAll(
  ctx: PlanContext,
  pod: Pod,
  additions: readonly NetworkSelection[],
): Promise<ResolvedNetwork[]> {
  const lookUps = additions.map((selection) => ({
    step: () => {
      refuseDefaultRoute(selection);
      return resolveSelection(ctx, pod, selection);
    },
    network: `${selection.namespace}/${selection.name}`,
  }));
  return attemptAll(ctx, lookUps);
}

/** The kubelet's probes and the pod's connections use the present route. */
function refuseDefaultRoute({ defaultRoute, namespace, name }: NetworkSelection): void {
  if (defaultRoute === undefined) return;
  throw new CniError(
    "InvalidRequest",
    `network ${namespace}/${name}: a running pod keeps its default route; remove default-route from the element, or create the pod again`,
  );
}

function interfaceNames(
  { problems }: PlanContext,
  { record, links }: SandboxToChange,
  networks: readonly ResolvedNetwork[],
): string[] {
  const existing = new Set([...links, ...record.attachments.map(({ ifName }) => ifName)]);
  const { ifName: runtimeIfName } = record;
  return assignInterfaceNames(networks, { problems, runtimeIfName, existing, firstNumber: 1 });
}

/** @throws CniError 100 when the record would be too long */
function sizeOf({ record }: SandboxToChange, planned: readonly PlannedAttachment[]): number {
  const results = record.attachments.flatMap((each) => {
    const found = planned.find(({ ifName }) => ifName === each.ifName);
    if (found === undefined || each.result === undefined) return [];
    return { planned: found, raw: each.result, ignoredRequests: each.ignoredRequests ?? [] };
  });
  return checkSizeWithResults(plannedSize(planned), results);
}
