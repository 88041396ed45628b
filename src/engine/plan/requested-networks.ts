import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/deps.ts";
import type { ResolvedNetwork } from "#engine/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { checkNamespaceAccess } from "#npwg/isolation.ts";
import { checkCapabilities, requestedCapabilities, withCniArgs } from "#npwg/runtime-config.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import {
  defaultNetworkAnnotation,
  networksAnnotation,
  parseDefaultNetworkSelection,
  parseNetworkSelections,
} from "#npwg/selection/selection.ts";
import { SelectionError } from "#npwg/selection/selection-error.ts";
import { networkFromNad } from "./default-network.ts";
import { noSource } from "./pod.ts";
import { RefusedRequest } from "./refused-request.ts";

/** The networks that a pod requests; `annotationError` when its annotation is invalid and therefore ignored. */
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
export async function requestedNetworks(ctx: CallContext, pod: Pod): Promise<PodRequests> {
  const defaultNetwork = await defaultOverride(ctx, pod);
  const annotation = pod.annotations[networksAnnotation] ?? "";
  let selections: NetworkSelection[];
  try {
    selections = parseNetworkSelections(annotation, {
      podNamespace: pod.namespace,
      onWarning: (message) => ctx.logger.warn({}, message),
    });
  } catch (error) {
    if (!(error instanceof SelectionError)) throw error;
    if (ctx.config.invalidAnnotation === "fail") throw invalidAnnotation(error);
    emitInvalidAnnotation(ctx, pod, error);
    ctx.logger.warn({}, `${error.message}; the pod gets its default network only`);
    return omitUndefined({ secondaries: [], defaultNetwork, annotationError: error.message });
  }
  const secondaries: ResolvedNetwork[] = [];
  for (const selection of selections) secondaries.push(await resolveSelection(ctx, pod, selection));
  return omitUndefined({ secondaries, defaultNetwork });
}

/** An invalid annotation may be ignored (§4.1.2.1), but never silently. */
function emitInvalidAnnotation(ctx: CallContext, pod: Pod, error: SelectionError): void {
  ctx.deps.events.record(pod, {
    type: "Warning",
    reason: "InvalidNetworkAnnotation",
    message: error.message,
  });
}

function invalidAnnotation(error: SelectionError): RefusedRequest {
  return new RefusedRequest("InvalidNetworkAnnotation", error);
}

/**
 * The network that the pod has instead of the cluster default network, if its annotation names one.
 * @throws CniError as {@link requestedNetworks}
 */
export async function defaultOverride(
  ctx: CallContext,
  pod: Pod,
): Promise<ResolvedNetwork | undefined> {
  const annotation = pod.annotations[defaultNetworkAnnotation];
  if (annotation === undefined) return undefined;
  const defaultNamespace = ctx.config.plexusNamespace;
  try {
    const selection = parseDefaultNetworkSelection(annotation, { defaultNamespace });
    return { ...(await resolveSelection(ctx, pod, selection)), isDefault: true };
  } catch (error) {
    throw error instanceof SelectionError ? invalidAnnotation(error) : error;
  }
}

/** The network of one selection. @throws CniError as {@link requestedNetworks} */
export async function resolveSelection(
  ctx: CallContext,
  pod: Pod,
  selection: NetworkSelection,
): Promise<ResolvedNetwork> {
  const displayName = `${selection.namespace}/${selection.name}`;
  checkAccess(ctx, pod, selection);
  const { source } = ctx.deps;
  if (source === undefined) throw noSource(pod);
  const nad = await source.getNad(selection, { signal: ctx.signal });
  if (nad === undefined) throw noSuchNetwork(displayName);
  const network = await networkFromNad(ctx, nad);
  const requested = requestedCapabilities(selection);
  const cniArgsSuffice = ctx.config.undeclaredRequests === "cniArgs";
  checkCapabilities(network.list, requested, { display: displayName, cniArgsSuffice });
  const list =
    selection.cniArgs === undefined ? network.list : withCniArgs(network.list, selection.cniArgs);
  return { ...network, list, capabilityArgs: requested, selection };
}

function checkAccess(ctx: CallContext, pod: Pod, selection: NetworkSelection): void {
  const { namespaceIsolation, globalNamespaces } = ctx.config;
  try {
    checkNamespaceAccess({
      podNamespace: pod.namespace,
      nadNamespace: selection.namespace,
      name: selection.name,
      namespaceIsolation,
      globalNamespaces,
    });
  } catch (error) {
    throw error instanceof CniError ? new RefusedRequest("NetworkAccessDenied", error) : error;
  }
}

function noSuchNetwork(displayName: string): RefusedRequest {
  const message = `there is no NetworkAttachmentDefinition ${displayName}, which the pod asks for`;
  const error = new CniError(CniErrorCode.InvalidRequest, message);
  return new RefusedRequest("NoNetworkFound", error);
}
