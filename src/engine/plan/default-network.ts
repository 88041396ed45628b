import { hash } from "node:crypto";
import { join } from "node:path/posix";
import { type ConfOptions, type NetConfList, toJson } from "#cni/conf/conf.ts";
import { loadFirstNetwork, loadNetworkByName, loadNetworkFile } from "#cni/conf/load.ts";
import { isSamePlugin } from "#cni/conf/same-plugin.ts";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { EngineConfig, OmittedPlugin } from "#engine/config.ts";
import { delegateList } from "#engine/delegate-list.ts";
import { unseenPathHint } from "#engine/ports/host.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { canBeDefaultNetwork, checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { type NetworkAttachmentDefinition, nadConf } from "#npwg/nad.ts";
import { matchesPattern } from "#npwg/name-pattern.ts";
import { resourceNameAnnotation } from "#npwg/selection/selection.ts";
import { eachDeviceAnnotation } from "./devices/each-device.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { attemptAll, type LookUp, type PlanContext } from "./problems.ts";

/**
 * The networks that every pod gets by configuration: the default network first, then the further
 * `delegates` or, outside system namespaces, the `defaultNetworks`.
 * @throws CniError 7 when none is configured or one cannot be used
 */
export async function configuredNetworks(
  ctx: PlanContext,
  options: { readonly runtimeConfig: JsonObject; readonly podNamespace: string | undefined },
): Promise<ResolvedNetwork[]> {
  const first = { step: () => defaultNetwork(ctx, options.runtimeConfig) };
  return attemptAll(ctx, [first, ...furtherNetworks(ctx, options.podNamespace)]);
}

function furtherNetworks(
  ctx: CallContext,
  podNamespace: string | undefined,
): LookUp<ResolvedNetwork>[] {
  const { clusterNetwork, delegates, systemNamespaces, defaultNetworks } = ctx.config;
  if (clusterNetwork === undefined) {
    return delegates.slice(1).map((conf, i) => ({
      step: () => inlineNetwork(ctx, conf, i + 1),
      network: `delegates[${i + 1}]`,
    }));
  }
  if (podNamespace === undefined || systemNamespaces.includes(podNamespace)) return [];
  return defaultNetworks.map((network) => ({
    step: () => networkByReference(ctx, network),
    network,
  }));
}

/** The `delegates` besides the default network, for a DEL. @throws CniError 7 when one cannot be used */
export function furtherDelegates(ctx: LookupContext): ResolvedNetwork[] {
  const { clusterNetwork, delegates } = ctx.config;
  if (clusterNetwork !== undefined) return [];
  return delegates.slice(1).map((conf, i) => inlineNetwork(ctx, conf, i + 1));
}

/** What networks are looked up with; see {@link ConfOptions.unlimited}. */
type LookupContext = CallContext & Pick<ConfOptions, "unlimited">;

/** The cluster default network (multi-network v1.1 §6) with the runtime's runtimeConfig (§7.5). */
export async function defaultNetwork(
  ctx: LookupContext,
  capabilityArgs: JsonObject = {},
): Promise<ResolvedNetwork> {
  const { clusterNetwork, delegates } = ctx.config;
  const inline = delegates[0];
  if (clusterNetwork === undefined && inline === undefined) {
    const message = "no default network is configured: set clusterNetwork or delegates";
    throw new CniError("MissingDefaultNetwork", message);
  }
  const network =
    clusterNetwork === undefined
      ? inlineNetwork(ctx, inline as JsonObject, 0)
      : await networkByReference(ctx, clusterNetwork);
  const list = withoutOmitted(network.list, ctx.config.omittedPlugins ?? []);
  return { ...network, list, isDefault: true, capabilityArgs };
}

/** The runtime runs a plugin that an agent has appended to Plexus's file and to the primary's. */
function withoutOmitted(list: NetConfList, omitted: readonly OmittedPlugin[]): NetConfList {
  const plugins = list.plugins.filter(
    ({ raw }) => !omitted.some((each) => isSamePlugin(each, raw)),
  );
  const isUnchanged = plugins.length === 0 || plugins.length === list.plugins.length;
  return isUnchanged ? list : { ...list, plugins };
}

/** A network as configuration names it: a definition, a CNI name, a file or a directory. */
async function networkByReference(ctx: LookupContext, reference: string): Promise<ResolvedNetwork> {
  if (reference.includes("/")) return networkFromList(await listAtPath(ctx, reference));
  const ref = { namespace: ctx.config.plexusNamespace, name: reference };
  const nad = await ctx.deps.source?.getNad(ref, { signal: ctx.signal });
  if (nad !== undefined) return networkFromNad(ctx, nad);
  try {
    return networkFromList(await listByName(ctx, reference));
  } catch (cause) {
    const message =
      `cannot use network ${JSON.stringify(reference)}: there is no NetworkAttachmentDefinition ` +
      `${ref.namespace}/${reference}, and ${errorMessage(cause)}`;
    throw new CniError("MissingDefaultNetwork", message, { cause });
  }
}

/** The network of a definition: its own configuration, or the one on disk of its name (§3.4.1). */
export async function networkFromNad(
  ctx: LookupContext,
  nad: NetworkAttachmentDefinition,
): Promise<ResolvedNetwork> {
  const list = await nadConf(nad, (name) => listByName(ctx, name), ctx);
  const network = networkFromList(list, `${nad.namespace}/${nad.name}`);
  const resourceName = deviceResource(nad, ctx.config);
  const requiredLinks = nad.annotations["plexus.dev/requires-links"];
  const eachDevice = nad.annotations[eachDeviceAnnotation];
  const definition = hash("sha256", JSON.stringify(toJson(list)), "base64url").slice(0, 16);
  return omitUndefined({ ...network, resourceName, eachDevice, requiredLinks, definition });
}

/** plexusd counts these, whatever the configuration lists. */
const ownMarkers = "networks.plexus.dev/*";

/**
 * The resource whose devices a definition's attachments need. A marker has none: an agent counts it
 * on the Node, so that pods are scheduled where the network exists.
 */
function deviceResource(
  { annotations }: NetworkAttachmentDefinition,
  { markerResources }: Pick<EngineConfig, "markerResources">,
): string | undefined {
  const resource = annotations[resourceNameAnnotation];
  if (resource === undefined) return undefined;
  const isMarker = (pattern: string): boolean => matchesPattern(pattern, resource);
  return [ownMarkers, ...markerResources].some(isMarker) ? undefined : resource;
}

function inlineNetwork(ctx: LookupContext, conf: JsonObject, index: number): ResolvedNetwork {
  return networkFromList(delegateList(conf, index, ctx.unlimited));
}

/** @throws CniError 7 for a meta-plugin */
function networkFromList(list: NetConfList, displayName = list.name): ResolvedNetwork {
  checkNotMetaPlugin(list, displayName);
  return { displayName, isDefault: false, list, capabilityArgs: {} };
}

async function listAtPath(ctx: LookupContext, path: string): Promise<NetConfList> {
  const options = loadOptions(ctx);
  const kind = await options.files.kind(path);
  if (kind === "file") return loadNetworkFile(path, options);
  if (kind === "directory")
    return loadFirstNetwork(path, { ...options, accept: canBeDefaultNetwork });
  const hint = unseenPathHint(options.files, path);
  const message = `the network configuration ${join(path)} does not exist${hint}`;
  throw new CniError("MissingDefaultNetwork", message);
}

async function listByName(ctx: LookupContext, name: string): Promise<NetConfList> {
  const { confDir: dir } = ctx.config;
  const hint = unseenPathHint(ctx.deps.confFiles, dir);
  // Where `confDir` is the runtime's directory, Plexus's own list has the primary CNI's name.
  const accept = ({ plugins }: NetConfList): boolean => plugins[0]?.type !== "plexus";
  if (hint === "") return loadNetworkByName({ dir, name, accept, ...loadOptions(ctx) });
  const message = `no net configuration with name "${name}" in ${dir}, which does not exist${hint}`;
  throw new CniError("MissingConfiguration", message);
}

function loadOptions({ deps, logger, unlimited = false }: LookupContext) {
  const onWarning = (message: string): void => logger.warn({}, message);
  return { files: deps.confFiles, onWarning, unlimited };
}
