import { asCniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { NetworksToCollect } from "#engine/gc/networks.ts";
import { parseMultusNetworks } from "#npwg/multus/networks-file.ts";

/**
 * Adds the attachments of running sandboxes that Multus attached to those that must stay: they have no record
 * until they are detached, but may be in networks of which there are records. Of the default network the
 * runtime's own list has them.
 */
export async function addMultusSandboxes(
  ctx: CallContext,
  networks: NetworksToCollect,
  isValid: (containerId: string) => boolean,
): Promise<void> {
  const { multusFiles } = ctx.deps;
  for (const containerId of await multusFiles.containers()) {
    if (!isValid(containerId)) continue;
    try {
      const text = await multusFiles.networks(containerId);
      if (text !== undefined) addNetworks(networks, containerId, text);
    } catch (error) {
      networks.markIncomplete();
      const fields = { err: asCniError(error), containerId };
      ctx.logger.warn(
        fields,
        "Multus's file of a running sandbox is unusable: nothing is collected",
      );
    }
  }
}

function addNetworks(networks: NetworksToCollect, containerId: string, text: string): void {
  const source = `Multus's file of container ${containerId}`;
  const attached = parseMultusNetworks(text, { source, cniVersion: "" });
  for (const [index, { list, ifName = `net${index}` }] of attached.entries()) {
    networks.addAttachment(list.name, { containerID: containerId, ifname: ifName });
  }
}
