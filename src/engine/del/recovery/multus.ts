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
import { recordAndDetach, type UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/**
 * Detaches a sandbox that Multus attached, by Multus's files. The shim removes these once there is
 * a record.
 * @returns whether there were usable files
 * @throws CniError 5 when they cannot be read, and as {@link recordAndDetach}
 */
export async function detachByMultusFiles(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<boolean> {
  const attachments = await multusAttachments(ctx, sandbox).catch((error: unknown) => {
    // A retry would fail again because of damaged files.
    if (!(error instanceof CniError) || error.code === CniErrorCode.IoFailure) throw error;
    const message =
      "cannot use Multus's file of the sandbox: its other networks may keep addresses allocated";
    ctx.logger.error({ err: error }, message);
    return undefined;
  });
  if (attachments === undefined) return false;
  ctx.logger.info({ networks: attachments.length }, "detaching a sandbox that Multus attached");
  await recordAndDetach(ctx, sandbox, attachments);
  return true;
}

/**
 * The attachments in Multus's files for its DEL; undefined when there are none for the container.
 * @throws CniError 5 when they cannot be read, 6 or 7 when they cannot be used
 */
async function multusAttachments(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<RecordedAttachment[] | undefined> {
  const { containerId, cniVersion } = sandbox;
  const text = await ctx.deps.multusFiles.networks(containerId);
  if (text === undefined) return undefined;
  const source = `Multus's file of container ${containerId}`;
  const attachments: RecordedAttachment[] = [];
  for (const [index, network] of parseMultusNetworks(text, { source, cniVersion }).entries()) {
    checkNotMetaPlugin(network.list, network.displayName);
    attachments.push(await attachment(ctx, sandbox, { network, index }));
  }
  return attachments;
}

async function attachment(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  { network, index }: { readonly network: MultusNetwork; readonly index: number },
): Promise<RecordedAttachment> {
  const ifName = multusIfName(network, { index, first: sandbox.ifName });
  const { list, capabilityArgs } = network;
  const cached = await cachedAdd(ctx, sandbox, { network: list.name, ifName });
  return omitUndefined({
    displayName: network.displayName,
    isDefault: index === 0,
    ifName,
    state: cached?.result === undefined ? ("attempted" as const) : ("attached" as const),
    conf: toJson(completeConf(ctx, network, cached)),
    cniArgs: mergeCniArgs(sandbox.cniArgs, cached?.cniArgs ?? []),
    capabilityArgs: { ...capabilityArgs, ...cached?.capabilityArgs },
    searchPath: delegateSearchPath(ctx.config, sandbox.path),
    result: cached?.result,
  });
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
