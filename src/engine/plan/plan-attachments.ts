import { type CniArgs, mergeCniArgs } from "#cni/args.ts";
import { CniError } from "#cni/error.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { AddRequest, RequestConf } from "#cni/plugin/request.ts";
import { assignDevices } from "#engine/plan/devices/assign-devices.ts";
import { withDeviceInfoFile } from "#engine/plan/devices/device-info.ts";
import { withoutUnusedAnnotations } from "#engine/plan/pod/runtime-pod.ts";
import { checkSizeWithResults, plannedSize } from "#engine/plan/record-size.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { requestedCniArgs } from "#npwg/runtime-config.ts";
import { defaultRouteFamilies } from "#npwg/selection/network-selection.ts";
import { auxiliaryNetwork } from "./auxiliary-network.ts";
import { configuredNetworks } from "./default-network.ts";
import { refuseRepeatedFailures } from "./earlier-failures.ts";
import { assignInterfaceNames } from "./interface-names.ts";
import type { Attached, PlannedAttachment, ResolvedNetwork } from "./planned-attachment.ts";
import { delegateSearchPath } from "./plugins/search-path.ts";
import { attempt, type PlanContext, type PlanProblem, refuse } from "./problems.ts";
import { repeatedNetworkProblems } from "./repeated-networks.ts";
import { requestedNetworks, withoutRequested } from "./requested-networks.ts";

/** The attachments of an ADD, validated before anything is attached. */
export interface AttachmentPlan {
  readonly attachments: readonly PlannedAttachment[];
  /** The size of the record with its teardown plan, without results. */
  readonly recordBytes: number;
  readonly annotationError?: string;
}

/** What a plan is made from, besides the pod. */
export interface PlanRequest
  extends Pick<AddRequest, "containerId" | "ifName" | "cniArgs" | "path"> {
  readonly conf: Pick<RequestConf, "cniVersion" | "runtimeConfig">;
  readonly existingInterfaces: () => Promise<ReadonlySet<string>>;
}

/**
 * Decides the attachments of a sandbox. Where problems are collected, networks that cannot be
 * looked up are left out.
 * @throws CniError when one of them cannot be made as requested, unless problems are collected
 */
export async function planAttachments(
  ctx: PlanContext,
  request: PlanRequest,
  pod: Pod | undefined,
): Promise<AttachmentPlan> {
  const { networks: selected, annotationError } = await selectNetworks(ctx, request, pod);
  const chain = () => auxiliaryNetwork(ctx, request.conf.cniVersion);
  const auxiliary = await attempt(ctx, chain, ctx.config.auxiliaryCNIChainName);
  const wanted = auxiliary === undefined ? selected : [...selected, auxiliary];
  const plan = await planNetworks(ctx, { request, pod }, wanted);
  const { containerId } = request;
  await attempt(ctx, () => refuseRepeatedFailures(ctx, { containerId, pod }, plan.attachments));
  return omitUndefined({ ...plan, annotationError });
}

/** What networks are planned for. */
export interface NetworksToPlan {
  readonly request: Omit<PlanRequest, "conf">;
  readonly pod: Pod | undefined;
  /** The networks that the sandbox has, or will have, already. @default none */
  readonly earlier?: readonly EarlierNetwork[];
}

/** A network of a sandbox: its result is absent until it is attached. */
export interface EarlierNetwork extends Partial<Pick<Attached, "raw" | "ignoredRequests">> {
  readonly planned: PlannedAttachment;
}

/** Decides how networks are attached to a sandbox. @throws CniError as {@link planAttachments} */
export async function planNetworks(
  ctx: PlanContext,
  { request, pod, earlier = [] }: NetworksToPlan,
  wanted: readonly ResolvedNetwork[],
): Promise<Pick<AttachmentPlan, "attachments" | "recordBytes">> {
  const before = earlier.map(({ planned }) => planned);
  const count = before.length + wanted.length;
  await attempt(ctx, () => checkLimit(limits.networks, count, "the pod"));
  refuse(ctx, repeatedNetworkProblems([...before, ...wanted]));
  const devicesInUse = before.flatMap(({ device }) => device?.id ?? []);
  const networks = await assignDevices({ ...ctx, devicesInUse }, pod, wanted);
  const links = await request.existingInterfaces();
  const names = assignInterfaceNames(networks, {
    ...ctx,
    runtimeIfName: request.ifName,
    existing: new Set([...links, ...before.map((each) => each.ifName)]),
    firstNumber: before.length === 0 ? undefined : 1,
  });
  const searchPath = delegateSearchPath(ctx.config, request.path);
  const attachments = networks.map((network, i): PlannedAttachment => {
    const own = { containerId: request.containerId, ifName: names[i] as string };
    const args = withDeviceInfoFile(network, own);
    const capabilityArgs = withoutUnusedAnnotations(args, network.list);
    const cniArgs = delegateArgs(request.cniArgs, network);
    return { ...network, capabilityArgs, ifName: own.ifName, cniArgs, searchPath };
  });
  refuse(ctx, defaultRouteProblems([...before, ...attachments]));
  const recordBytes = (await attempt(ctx, () => sizeOf(earlier, attachments))) ?? 0;
  return { attachments, recordBytes };
}

/** @throws CniError 100 when the record would be too long */
function sizeOf(
  earlier: readonly EarlierNetwork[],
  attachments: readonly PlannedAttachment[],
): number {
  const size = plannedSize([...earlier.map(({ planned }) => planned), ...attachments]);
  const results = earlier.flatMap(({ planned, raw, ignoredRequests = [] }) =>
    raw === undefined ? [] : [{ planned, raw, ignoredRequests }],
  );
  return checkSizeWithResults(size, results);
}

async function selectNetworks(
  ctx: PlanContext,
  request: PlanRequest,
  pod: Pod | undefined,
): Promise<{ networks: ResolvedNetwork[]; annotationError?: string }> {
  const { runtimeConfig } = request.conf;
  const configured = await configuredNetworks(ctx, { runtimeConfig, podNamespace: pod?.namespace });
  if (pod === undefined) return { networks: configured };
  const { secondaries, defaultNetwork, annotationError } = await requestedNetworks(ctx, pod);
  const first = configured.find(({ isDefault }) => isDefault);
  const override = defaultNetwork && {
    ...defaultNetwork,
    capabilityArgs: { ...first?.capabilityArgs, ...defaultNetwork.capabilityArgs },
  };
  const others = configured.filter((network) => network !== first);
  const further = withoutRequested(others, [override ?? [], secondaries].flat());
  const networks = [override ?? first ?? [], further, secondaries].flat();
  return omitUndefined({ networks, annotationError });
}

/** At most one attachment can have the default route of a family. */
function defaultRouteProblems(attachments: readonly PlannedAttachment[]): PlanProblem[] {
  return ([4, 6] as const).flatMap((family) => {
    const [first, second] = attachments.filter(({ selection }) =>
      defaultRouteFamilies(selection?.defaultRoute).includes(family),
    );
    if (first === undefined || second === undefined) return [];
    const message = `both ${first.ifName} and ${second.ifName} are to have the IPv${family} default route; only one attachment can`;
    return { network: second.displayName, error: new CniError("DefaultRouteTaken", message) };
  });
}

/** CNI_ARGS with an address, for the interface that the runtime requests: the default network's. */
const addressArgs = new Set(["IP", "GATEWAY", "MAC"]);

/** The CNI_ARGS for a network, of those of the runtime's call. */
export function delegateArgs(
  args: CniArgs,
  { isDefault, selection, list }: ResolvedNetwork,
): CniArgs {
  const own = isDefault ? args : args.filter(([key]) => !addressArgs.has(key));
  return mergeCniArgs(own, selection === undefined ? [] : requestedCniArgs(selection, list));
}
