import { CniError } from "#cni/error.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { AddRequest, RequestConf } from "#cni/plugin/request.ts";
import { podRanges } from "#engine/cluster-ranges.ts";
import { assignDevices } from "#engine/plan/devices/assign-devices.ts";
import {
  checkSizeWithResults,
  plannedSize,
  type SandboxNetwork,
} from "#engine/plan/record-size.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { defaultRouteFamilies } from "#npwg/selection/network-selection.ts";
import { auxiliaryNetwork } from "./auxiliary-network.ts";
import { withCallParameters } from "./call-parameters.ts";
import { configuredNetworks } from "./default-network.ts";
import { refuseRepeatedFailures } from "./earlier-failures.ts";
import { requireNextPlugins } from "./next-plugins.ts";
import type { PlannedAttachment, ResolvedNetwork } from "./planned-attachment.ts";
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
  await attempt(ctx, () => requireNextPlugins(ctx, request.path));
  await attempt(ctx, () => podRanges(ctx.config, pod));
  const { networks, annotationError } = await networksOf(ctx, request.conf, pod);
  const plan = await planNetworks(ctx, { request, pod }, networks);
  const { containerId } = request;
  await attempt(ctx, () => refuseRepeatedFailures(ctx, { containerId, pod }, plan.attachments));
  return omitUndefined({ ...plan, annotationError });
}

/** What networks are planned for. */
export interface NetworksToPlan {
  readonly request: Omit<PlanRequest, "conf">;
  readonly pod: Pod | undefined;
  /** The networks that the sandbox has, or will have, already. @default none */
  readonly earlier?: readonly SandboxNetwork[];
}

/** Decides how networks are attached to a sandbox. @throws CniError as {@link planAttachments} */
export async function planNetworks(
  ctx: PlanContext,
  { request, pod, earlier = [] }: NetworksToPlan,
  wanted: readonly ResolvedNetwork[],
): Promise<Pick<AttachmentPlan, "attachments" | "recordBytes">> {
  const before = earlier.map(({ planned }) => planned);
  const devicesInUse = before.flatMap(({ device }) => device?.id ?? []);
  const networks = await assignDevices({ ...ctx, devicesInUse }, pod, wanted);
  const count = before.length + networks.length;
  await attempt(ctx, () => checkLimit(limits.networks, count, "the pod"));
  refuse(ctx, repeatedNetworkProblems([...before, ...networks]));
  const links = await request.existingInterfaces();
  const existing = new Set([...links, ...before.map((each) => each.ifName)]);
  const firstNumber = before.length === 0 ? undefined : 1;
  const attachments = withCallParameters(ctx, { ...request, existing, firstNumber }, networks);
  refuse(ctx, defaultRouteProblems([...before, ...attachments]));
  const size = () => checkSizeWithResults(plannedSize([...before, ...attachments]), earlier);
  const recordBytes = (await attempt(ctx, size)) ?? 0;
  return { attachments, recordBytes };
}

/** The networks of a sandbox, the default network first. @throws CniError as {@link planAttachments} */
export async function networksOf(
  ctx: PlanContext,
  conf: PlanRequest["conf"],
  pod: Pod | undefined,
): Promise<{ readonly networks: readonly ResolvedNetwork[]; readonly annotationError?: string }> {
  const { networks, annotationError } = await selectNetworks(ctx, conf, pod);
  const chain = () => auxiliaryNetwork(ctx, conf.cniVersion);
  const auxiliary = await attempt(ctx, chain, ctx.config.auxiliaryCNIChainName);
  return omitUndefined({ networks: [networks, auxiliary ?? []].flat(), annotationError });
}

async function selectNetworks(
  ctx: PlanContext,
  { runtimeConfig }: PlanRequest["conf"],
  pod: Pod | undefined,
): Promise<{ networks: ResolvedNetwork[]; annotationError?: string }> {
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
