import { mergeCniArgs } from "#cni/args.ts";
import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { type CachedAdd, parseCachedAdd } from "#npwg/multus/cached-add.ts";
import {
  type MultusNetwork,
  multusIfName,
  parseMultusNetworks,
} from "#npwg/multus/networks-file.ts";
import { type ContainerInterfaces, containerInterfaces } from "./held-interfaces.ts";
import { recordAndDetach, type UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/**
 * Detaches a sandbox that Multus attached, by Multus's files. The shim removes these once there is
 * a record.
 * @returns whether there were usable files of this interface's attachment
 * @throws CniError 5 when they cannot be read, and as {@link recordAndDetach}
 */
export async function detachByMultusFiles(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<boolean> {
  const attachments = await multusAttachments(ctx, sandbox);
  if (attachments === undefined) return false;
  ctx.logger.info({ networks: attachments.length }, "detaching a sandbox that Multus attached");
  await recordAndDetach(ctx, sandbox, attachments);
  return true;
}

/**
 * The interfaces that the container's other attachments have, by other records or by Multus: an ADD
 * never gives them again.
 * @throws CniError 5 when Multus's files cannot be read, Error when records cannot be listed
 */
export async function heldInterfaces(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<ContainerInterfaces> {
  const recorded = await containerInterfaces(ctx, sandbox);
  const networks = await multusNetworks(ctx, sandbox);
  const ofMultus = networks && (await interfacesOfAnother(ctx, sandbox, networks));
  return { ...recorded, names: new Set([...recorded.names, ...(ofMultus ?? [])]) };
}

/**
 * The interfaces in Multus's files of the container if Multus attached it for another interface of
 * the runtime; none in doubt. Only the name of libcni's cache file says for which interface Multus
 * attached its first network, unless another network has that name. A DEL of Multus that failed may
 * have removed the file.
 * @throws CniError 5 when the cache cannot be read
 */
async function interfacesOfAnother(
  ctx: CallContext,
  { containerId, ifName }: UnrecordedSandbox,
  networks: readonly MultusNetwork[],
): Promise<string[]> {
  const names = networks.map((each, index) => multusIfName(each, { index, first: ifName }));
  const network = networks[0]?.list.name ?? "";
  const cached = await ctx.deps.multusFiles.cachedInterfaces({ network, containerId });
  const firsts = cached.filter((name) => !names.includes(name));
  return cached.includes(ifName) || firsts.length === 0 ? [] : [...firsts, ...names.slice(1)];
}

/** The networks in Multus's file of the container, if it can be used. @throws CniError 5 */
async function multusNetworks(
  ctx: CallContext,
  { containerId, cniVersion }: UnrecordedSandbox,
): Promise<MultusNetwork[] | undefined> {
  try {
    const text = await ctx.deps.multusFiles.networks(containerId);
    if (text === undefined) return undefined;
    const source = `Multus's file of container ${containerId}`;
    return parseMultusNetworks(text, { source, cniVersion });
  } catch (err) {
    // A retry would fail again because of a damaged file.
    if (!(err instanceof CniError) || err.code === CniErrorCode.IoFailure) throw err;
    const message =
      "cannot use Multus's file of the sandbox: its other networks may keep addresses allocated";
    ctx.logger.error({ err }, message);
    return undefined;
  }
}

/**
 * The attachments in Multus's files for its DEL; undefined without files, or if they are of another
 * interface of the container.
 * @throws CniError 5 when they cannot be read
 */
async function multusAttachments(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<RecordedAttachment[] | undefined> {
  const networks = await multusNetworks(ctx, sandbox);
  if (networks === undefined) return undefined;
  if ((await interfacesOfAnother(ctx, sandbox, networks)).length > 0) return undefined;
  // Such as the record of the same files, if the shim was interrupted before it removed them.
  const { names: held } = await containerInterfaces(ctx, sandbox);
  const attachments: RecordedAttachment[] = [];
  for (const [index, network] of networks.entries()) {
    const { list, displayName, capabilityArgs } = network;
    const ifName = multusIfName(network, { index, first: sandbox.ifName });
    const cached = await cachedAdd(ctx, sandbox, { network: list.name, ifName });
    const attachment = omitUndefined({
      ...{ displayName, isDefault: index === 0, ifName, result: cached?.result },
      state: cached?.result === undefined ? ("attempted" as const) : ("attached" as const),
      conf: toJson(completeConf(ctx, network, cached)),
      cniArgs: mergeCniArgs(sandbox.cniArgs, cached?.cniArgs ?? []),
      capabilityArgs: { ...capabilityArgs, ...cached?.capabilityArgs },
      searchPath: delegateSearchPath(ctx.config, sandbox.path),
    });
    if (!held.has(ifName)) attachments.push(attachment);
  }
  return attachments;
}

/** What libcni cached of an attachment. Without it the DEL gets no prevResult, as libcni's. */
async function cachedAdd(
  ctx: CallContext,
  { containerId }: UnrecordedSandbox,
  attached: { readonly network: string; readonly ifName: string },
): Promise<CachedAdd | undefined> {
  const key = { ...attached, containerId };
  try {
    const text = await ctx.deps.multusFiles.cachedAdd(key);
    return text === undefined ? undefined : parseCachedAdd(text, key);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    ctx.logger.warn({ err: error, ...attached }, "cannot use a result that Multus cached");
    return undefined;
  }
}

/** Multus's file may lack parts of a list that libcni's cache contains. */
function completeConf(
  ctx: CallContext,
  { list, isComplete, displayName }: MultusNetwork,
  cached: CachedAdd | undefined,
): NetConfList {
  if (isComplete || cached?.conf === undefined) return list;
  try {
    const complete = parseNetConfList(cached.conf, { source: displayName, unlimited: true });
    checkNotMetaPlugin(complete, displayName);
    return { ...complete, cniVersion: complete.cniVersion || list.cniVersion };
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    ctx.logger.warn({ err: error }, "cannot use a configuration that Multus cached");
    return list;
  }
}
