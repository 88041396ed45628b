import { type CniArgs, mergeCniArgs } from "#cni/args.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { inSandbox, sandboxLinks } from "#engine/call/sandbox.ts";
import { assignDevices } from "#engine/plan/devices/assign-devices.ts";
import { withDeviceInfoFile } from "#engine/plan/devices/device-info.ts";
import { withoutUnusedAnnotations } from "#engine/plan/pod/runtime-pod.ts";
import type { Pod } from "#engine/ports.ts";
import { plannedSize } from "#engine/record/record-size.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { requestedCniArgs } from "#npwg/runtime-config.ts";
import { auxiliaryNetwork } from "./auxiliary-network.ts";
import { configuredNetworks } from "./default-network.ts";
import { pluginProblems } from "./find-plugins.ts";
import { assignInterfaceNames } from "./interface-names.ts";
import type { PlannedAttachment, ResolvedNetwork } from "./planned-attachment.ts";
import { throwProblems } from "./problems.ts";
import { checkRepeatedNetworks } from "./repeated-networks.ts";
import { requestedNetworks } from "./requested-networks.ts";
import { delegateSearchPath } from "./search-path.ts";

/** The attachments of an ADD, validated before anything is attached. */
export interface AttachmentPlan {
  readonly attachments: readonly PlannedAttachment[];
  /** The size of the record with its teardown plan, without results. */
  readonly recordBytes: number;
  /** Why the pod's network annotation is ignored, when it is. */
  readonly annotationError?: string;
}

/** Decides the attachments of a sandbox. @throws CniError when one of them cannot be made as requested */
export async function planAttachments(
  ctx: CallContext,
  request: AddRequest,
  pod: Pod | undefined,
): Promise<AttachmentPlan> {
  const { networks: selected, annotationError } = await selectNetworks(ctx, request, pod);
  const auxiliary = await auxiliaryNetwork(ctx, request.conf.cniVersion);
  const wanted = auxiliary === undefined ? selected : [...selected, auxiliary];
  checkLimit(limits.networks, wanted.length, "the pod");
  checkRepeatedNetworks(wanted);
  const networks = await assignDevices(ctx, pod, wanted);
  const searchPath = delegateSearchPath(ctx.config, request.path);
  // One round trip to the shim, as neither waits for the other's answer.
  const [existing, problems] = await Promise.all([
    existingInterfaces(ctx, request.netns),
    pluginProblems(ctx, networks, searchPath),
  ]);
  throwProblems(problems);
  const names = assignInterfaceNames(networks, { runtimeIfName: request.ifName, existing });
  const attachments = networks.map((network, i) => {
    const ifName = names[i] as string;
    const args = withDeviceInfoFile(network, { ...request, ifName });
    const capabilityArgs = withoutUnusedAnnotations(args, network.list);
    const cniArgs = delegateArgs(request.cniArgs, network);
    return { ...network, capabilityArgs, ifName, cniArgs, searchPath };
  });
  return omitUndefined({
    attachments,
    recordBytes: plannedSize(attachments),
    annotationError,
  });
}

async function selectNetworks(
  ctx: CallContext,
  request: AddRequest,
  pod: Pod | undefined,
): Promise<{ networks: ResolvedNetwork[]; annotationError?: string }> {
  const configured = await configuredNetworks(ctx, {
    runtimeConfig: request.conf.runtimeConfig,
    podNamespace: pod?.namespace,
  });
  if (pod === undefined) return { networks: configured };
  const { secondaries, defaultNetwork, annotationError } = await requestedNetworks(ctx, pod);
  const [first, ...others] = configured;
  if (first === undefined) return { networks: [...secondaries] };
  const override = defaultNetwork && {
    ...defaultNetwork,
    capabilityArgs: { ...first.capabilityArgs, ...defaultNetwork.capabilityArgs },
  };
  const networks = [override ?? first, ...others, ...secondaries];
  return omitUndefined({ networks, annotationError });
}

/** CNI_ARGS that name an address apply to the interface that the runtime requests, the default network's. */
const addressArgs = new Set(["IP", "GATEWAY", "MAC"]);

function delegateArgs(args: CniArgs, { isDefault, selection, list }: ResolvedNetwork): CniArgs {
  const own = isDefault ? args : args.filter(([key]) => !addressArgs.has(key));
  return mergeCniArgs(own, selection === undefined ? [] : requestedCniArgs(selection, list));
}

async function existingInterfaces(ctx: CallContext, netns: string): Promise<Set<string>> {
  const links = await inSandbox(netns, () => sandboxLinks(ctx, netns));
  return new Set(links.map((link) => link.name));
}
