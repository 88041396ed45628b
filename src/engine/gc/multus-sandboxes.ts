import { readJsonObject } from "#cni/document.ts";
import { asCniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { parseMultusNetworks } from "#npwg/multus/networks-file.ts";
import type { NetworksToCollect } from "./networks.ts";

/**
 * Adds the attachments of sandboxes that Multus attached to the valid ones. They have no record
 * until they are detached, but may be in recorded networks. The runtime's list need not contain
 * them: nothing says which list they belong to.
 */
export async function addMultusSandboxes(
  ctx: CallContext,
  networks: NetworksToCollect,
): Promise<void> {
  const { multusFiles } = ctx.deps;
  for (const containerId of await multusFiles.containers()) {
    try {
      const text = await multusFiles.networks(containerId);
      if (text === undefined) continue;
      const source = `Multus's file of container ${containerId}`;
      const attached = parseMultusNetworks(text, { source, cniVersion: "" });
      for (const [index, { list, ifName = `net${index}` }] of attached.entries())
        networks.keep(list.name, containerId, ifName);
    } catch (error) {
      networks.markIncomplete();
      const fields = { err: asCniError(error), containerId };
      ctx.logger.warn(fields, "cannot use Multus's file of a sandbox: nothing is collected");
    }
  }
}

/** Adds what others, such as cnitool, attached with libcni to a network that a definition names. */
export async function addCachedAdds(ctx: CallContext, networks: NetworksToCollect): Promise<void> {
  for (const network of networks.othersNames) {
    try {
      for (const text of await ctx.deps.multusFiles.cachedAdds(network)) {
        const { networkName, containerId, ifName } = readJsonObject(text, "libcni's cache");
        const isUsable = typeof containerId === "string" && typeof ifName === "string";
        if (isUsable && networkName === network) networks.keep(network, containerId, ifName);
      }
    } catch (error) {
      networks.markIncomplete();
      const fields = { err: asCniError(error), network };
      ctx.logger.warn(fields, "cannot use libcni's cache of a network: nothing is collected");
    }
  }
}
