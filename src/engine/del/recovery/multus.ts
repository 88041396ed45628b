import { mergeCniArgs } from "#cni/args.ts";
import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { delegateSearchPath } from "#engine/plan/search-path.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { type CachedAdd, parseCachedAdd } from "#npwg/multus/cached-add.ts";
import { type MultusNetwork, parseMultusNetworks } from "#npwg/multus/networks-file.ts";
import type { ForeignSandbox } from "./foreign-sandbox.ts";

/**
 * The attachments of a sandbox that Multus attached, by the files that it keeps for its own DEL; undefined
 * when it has none of this container.
 * @throws CniError 5 when they cannot be read, 6 or 7 when they cannot be used
 */
export async function multusAttachments(
  ctx: CallContext,
  sandbox: ForeignSandbox,
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
  sandbox: ForeignSandbox,
  { network, index }: { readonly network: MultusNetwork; readonly index: number },
): Promise<RecordedAttachment> {
  const ifName = network.ifName ?? (index === 0 ? sandbox.ifName : `net${index}`);
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

/** Without the cached result the DEL goes on without a prevResult, as libcni's does. */
async function cachedAdd(
  ctx: CallContext,
  { containerId }: ForeignSandbox,
  attached: { readonly network: string; readonly ifName: string },
): Promise<CachedAdd | undefined> {
  const key = { ...attached, containerId };
  try {
    const text = await ctx.deps.multusFiles.cachedAdd(key);
    return text === undefined ? undefined : parseCachedAdd(text, key);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    ctx.logger.warn({ err: error, ...attached }, "a result that Multus cached cannot be used");
    return undefined;
  }
}

/** Multus's own note of a list may lack what only its plugins know; libcni's cache has it as it was. */
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
    ctx.logger.warn({ err: error }, "a configuration that Multus cached cannot be used");
    return list;
  }
}
