import { mergeCniArgs } from "#cni/args.ts";
import { toJson } from "#cni/conf/conf.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import { linkNames } from "#engine/call/sandbox.ts";
import { configuredNetworks } from "#engine/plan/default-network.ts";
import { assignInterfaceNames } from "#engine/plan/interface-names.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import { requestedNetworksForDel, withoutRequested } from "#engine/plan/requested-networks.ts";
import type { CalledPod, Pod } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { interfacesOfOthers } from "./held-interfaces.ts";
import { heldInterfaces } from "./multus.ts";
import { recordAndDetach, type UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/**
 * Detaches a sandbox without record and plan by its pod's annotation, with a warning and an event.
 * Annotation and definitions may have changed since the ADD. They are used only if record files
 * were damaged, or the namespace has an interface besides the default network's: not so after a
 * failed ADD. What belongs to another record, or to Multus's attachment of another interface, stays
 * and says nothing.
 * @returns whether the annotation names additional networks
 * @throws CniError as {@link recordAndDetach}
 */
export async function detachByAnnotation(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  { wasDamaged }: { readonly wasDamaged: boolean },
): Promise<boolean> {
  const identity = podIdentity(sandbox.cniArgs, ctx.deps.source);
  if (identity === undefined || ctx.deps.source === undefined) return false;
  const further = await furtherInterfaces(ctx, sandbox);
  if (!wasDamaged && further.size === 0) return false;
  const { names: held, isRecorded, inDoubt } = await heldInterfaces(ctx, sandbox);
  const ofOthers = await interfacesOfOthers(ctx, sandbox);
  const own = further.difference(held).difference(ofOthers);
  if (!wasDamaged && own.size === 0) return false;
  if (inDoubt) {
    const why = "another record of the container is unusable";
    ctx.logger.warn({}, `additional networks are not detached: ${why}`);
    return false;
  }
  const lost = await lookUp(ctx, { ...sandbox, identity, held });
  const attachments = (lost?.attachments ?? []).filter(
    ({ isDefault, ifName }) => !held.has(ifName) && (isDefault || wasDamaged || own.has(ifName)),
  );
  if (lost === undefined || attachments.every(({ isDefault }) => isDefault)) return false;
  const networks = attachments.map(({ displayName, ifName }) => `${displayName} (${ifName})`);
  const problem = isRecorded
    ? `there is no usable record of interface ${sandbox.ifName}`
    : "record and teardown plan are lost";
  const message =
    `${problem}: detaching the sandbox by the pod's current annotation and the current ` +
    `definitions, from ${networks.join(", ")}`;
  ctx.logger.warn({}, message);
  ctx.deps.events.record(lost.pod, { type: "Warning", reason: "DetachedByAnnotation", message });
  await recordAndDetach(ctx, sandbox, attachments);
  return true;
}

interface LostSandbox extends UnrecordedSandbox {
  readonly identity: CalledPod;
  /** The interfaces that others have: the ADD generated other names. */
  readonly held: ReadonlySet<string>;
}

/** The pod, with the attachments that it asks for; undefined when they are not known. */
async function lookUp(
  ctx: CallContext,
  sandbox: LostSandbox,
): Promise<{ pod: Pod; attachments: readonly RecordedAttachment[] } | undefined> {
  try {
    const pod = await ctx.deps.source?.getPod(sandbox.identity, { signal: ctx.signal });
    return pod && { pod, attachments: await attachmentsOf(ctx, sandbox, pod) };
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    ctx.logger.warn({ err: error }, "cannot look up the networks of the pod");
    return undefined;
  }
}

/** The interfaces besides loopback and the default network's; none when they cannot be listed. */
async function furtherInterfaces(
  ctx: CallContext,
  { netns, ifName }: UnrecordedSandbox,
): Promise<Set<string>> {
  if (netns === "") return new Set();
  try {
    return (await linkNames(ctx, netns)).difference(new Set(["lo", ifName]));
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return new Set();
  }
}

async function attachmentsOf(
  ctx: CallContext,
  sandbox: LostSandbox,
  pod: Pod,
): Promise<RecordedAttachment[]> {
  const of = { runtimeConfig: {}, podNamespace: pod.namespace };
  const configured = await configuredNetworks(ctx, of);
  const requested = await requestedNetworksForDel(ctx, pod);
  const networks = [...withoutRequested(configured, requested), ...requested];
  const options = { runtimeIfName: sandbox.ifName, existing: sandbox.held, problems: [] };
  const names = assignInterfaceNames(networks, options);
  const cniArgs = mergeCniArgs(sandbox.cniArgs);
  const searchPath = delegateSearchPath(ctx.config, sandbox.path);
  return networks.map(({ displayName, isDefault, list, capabilityArgs }, i) => ({
    ...{ displayName, isDefault, ifName: names[i] ?? "", state: "attempted" },
    ...{ conf: toJson(list), cniArgs, capabilityArgs, searchPath },
  }));
}
