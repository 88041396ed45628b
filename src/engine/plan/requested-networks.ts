import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { policyFor } from "#engine/namespace-rules.ts";
import { noSource } from "#engine/plan/pod/pod.ts";
import type { Pod, PodName } from "#engine/ports/cluster.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { checkAttachmentPolicy } from "#npwg/attachment-policy.ts";
import {
  allowedPrefix,
  checkNamespaceAccess,
  mayUse,
  permittedNamespaces,
} from "#npwg/isolation.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { matchesPattern } from "#npwg/name-pattern.ts";
import {
  checkCapabilities,
  checkClaimReference,
  requestedCapabilities,
  withCniArgs,
} from "#npwg/runtime-config.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import {
  defaultNetworkAnnotation,
  networksAnnotation,
  parseDefaultNetworkSelection,
  parseNetworkSelections,
} from "#npwg/selection/selection.ts";
import { SelectionError } from "#npwg/selection/selection-error.ts";
import { networkFromNad } from "./default-network.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { attempt, attemptAll, type LookUp, type PlanContext, tolerate } from "./problems.ts";

/** The networks that a pod requests; `annotationError` when its invalid annotation is ignored. */
interface PodRequests {
  readonly secondaries: readonly ResolvedNetwork[];
  /** Replaces the cluster default network for this pod. */
  readonly defaultNetwork?: ResolvedNetwork;
  readonly annotationError?: string;
}

/**
 * Resolves the annotations of a pod into networks (multi-network specification v1.1 §4).
 * @throws CniError when a network may not be used, does not exist or lacks a requested capability
 */
export async function requestedNetworks(ctx: PlanContext, pod: Pod): Promise<PodRequests> {
  const parsed = await attempt(ctx, () => parseAnnotation(ctx, pod));
  const networks = await attemptAll(ctx, [
    { step: () => defaultOverride(ctx, pod) },
    ...lookUpsOf(ctx, pod, parsed?.selections ?? []),
  ]);
  return omitUndefined({
    secondaries: networks.filter(({ isDefault }) => !isDefault),
    defaultNetwork: networks.find(({ isDefault }) => isDefault),
    annotationError: parsed?.annotationError,
  });
}

/** How the networks of selections are looked up. */
export function lookUpsOf(
  ctx: CallContext,
  pod: PodName,
  selections: readonly NetworkSelection[],
): LookUp<ResolvedNetwork>[] {
  return selections.map((selection) => ({
    step: () => resolveSelection(ctx, pod, selection),
    network: `${selection.namespace}/${selection.name}`,
  }));
}

/**
 * The configured networks without those whose definition the pod requests itself: that request
 * replaces the attachment that every pod gets. The default network stays.
 */
export function withoutRequested(
  configured: readonly ResolvedNetwork[],
  requested: readonly ResolvedNetwork[],
): ResolvedNetwork[] {
  const names = new Set(requested.map(({ displayName }) => displayName));
  return configured.filter(({ isDefault, displayName }) => isDefault || !names.has(displayName));
}

/** The pod's selections; `annotationError` where an invalid annotation is ignored (§4.1.2.1). */
function parseAnnotation(
  ctx: PlanContext,
  pod: Pod,
): { selections: readonly NetworkSelection[]; annotationError?: string } {
  using warnings = annotationWarnings(ctx, pod);
  try {
    const selections = parseNetworkSelections(pod.annotations[networksAnnotation] ?? "", {
      podNamespace: pod.namespace,
      onWarning: warnings.take,
    });
    return { selections };
  } catch (error) {
    if (!(error instanceof SelectionError)) throw error;
    tolerate(ctx, pod, { error, effect: "the pod gets its default network only" });
    return { selections: [], annotationError: error.message };
  }
}

/** Logs the warnings about an annotation. At the end, its unknown keys become one event. */
function annotationWarnings(ctx: PlanContext, pod: Pod) {
  const unknownKeys: string[] = [];
  return {
    take(message: string, isUnknownKey: boolean): void {
      if (isUnknownKey) unknownKeys.push(message);
      else ctx.logger.warn({}, message);
    },
    [Symbol.dispose](): void {
      if (unknownKeys.length === 0) return;
      const error = new CniError("UnknownKey", unknownKeys.join("; "));
      tolerate(ctx, pod, { error, effect: "unknown keys have no effect" });
    },
  };
}

/** The network of the default-network annotation. @throws CniError as {@link requestedNetworks} */
async function defaultOverride(ctx: PlanContext, pod: Pod): Promise<ResolvedNetwork | undefined> {
  const annotation = pod.annotations[defaultNetworkAnnotation];
  if (annotation === undefined) return undefined;
  using warnings = annotationWarnings(ctx, pod);
  const selection = parseDefaultNetworkSelection(annotation, {
    defaultNamespace: ctx.config.plexusNamespace,
    onWarning: warnings.take,
  });
  return { ...(await resolveSelection(ctx, pod, selection)), isDefault: true };
}

/** The network of one selection. @throws CniError as {@link requestedNetworks} */
async function resolveSelection(
  ctx: CallContext,
  pod: PodName,
  selection: NetworkSelection,
): Promise<ResolvedNetwork> {
  checkNamespaceAccess(pod.namespace, selection, ctx.config);
  const nad = await selectedDefinition(ctx, pod, selection);
  await checkPermission(ctx, pod, nad);
  const network = await networkOfSelection(ctx, nad, selection);
  if (ctx.config.strictness === "standard") {
    checkCapabilities(network.list, network.capabilityArgs, network.displayName);
    checkClaimReference(selection, network.displayName);
  }
  return network;
}

/**
 * Checks that the owner of a definition permits a pod to use it, as far as its annotations limit it.
 * @throws CniError 101 when not, 11 when the labels of the pod's namespace cannot be read
 */
async function checkPermission(
  { deps: { source }, signal }: CallContext,
  { namespace }: PodName,
  nad: NetworkAttachmentDefinition,
): Promise<void> {
  const { isLimited, names, selector } = permittedNamespaces(nad);
  if (namespace === nad.namespace || !isLimited) return;
  if (names.some((each) => matchesPattern(each, namespace))) return;
  if (selector !== "" && (await source?.namespaceMatches(namespace, selector, { signal }))) return;
  throw new CniError(
    "NetworkAccessDenied",
    `a pod of namespace "${namespace}" may not use network "${nad.namespace}/${nad.name}": its annotations ${allowedPrefix}… do not permit that`,
  );
}

/** The network of one selection as its definition is now; only its content is checked. @throws CniError 7, 11, 100, 101 */
export async function selectedNetwork(
  ctx: CallContext,
  pod: PodName,
  selection: NetworkSelection,
): Promise<ResolvedNetwork> {
  return networkOfSelection(ctx, await selectedDefinition(ctx, pod, selection), selection);
}

async function networkOfSelection(
  ctx: CallContext,
  nad: NetworkAttachmentDefinition,
  selection: NetworkSelection,
): Promise<ResolvedNetwork> {
  const network = await networkFromNad(ctx, nad);
  const list = withCniArgs(network.list, selection);
  const policy = policyFor(ctx.config, nad.namespace);
  // Without a configuration, it names a file of the node.
  if (policy !== undefined && nad.config?.trim()) checkAttachmentPolicy(list, nad, policy);
  return { ...network, list, capabilityArgs: requestedCapabilities(selection), selection };
}

/** @throws CniError 100 when there is none, 11 when that is not known */
async function selectedDefinition(
  ctx: CallContext,
  pod: PodName,
  selection: NetworkSelection,
): Promise<NetworkAttachmentDefinition> {
  const { source, definitions = source } = ctx.deps;
  if (definitions === undefined) throw noSource(pod);
  const nad = await definitions.getNad(selection, { signal: ctx.signal });
  if (nad === undefined) {
    const name = `${selection.namespace}/${selection.name}`;
    const message = `there is no NetworkAttachmentDefinition ${name}, which the pod asks for`;
    throw new CniError("NoNetworkFound", `${message}${meantNetwork(ctx, pod, selection)}`);
  }
  return nad;
}

/**
 * What a name may have meant: the same name in another namespace, or a similar one in the pod's.
 * Other names of other namespaces are not the pod's owner's to know.
 */
function meantNetwork(
  { deps: { source, definitions = source }, config }: Parameters<typeof networkFromNad>[0],
  pod: PodName,
  { name }: NetworkSelection,
): string {
  const known = [...(definitions?.knownNads?.() ?? [])];
  const namesake = known.find(
    (nad) => nad.name === name && mayUse(pod.namespace, nad.namespace, config),
  );
  if (namesake !== undefined) return `; did you mean ${namesake.namespace}/${name}?`;
  const near = known.filter(({ namespace }) => namespace === pod.namespace).map((nad) => nad.name);
  return didYouMean(name, near);
}
