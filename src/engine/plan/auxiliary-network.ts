import { dirname } from "node:path/posix";
import { loadAuxiliaryChain } from "#cni/conf/load.ts";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

/**
 * The network of `auxiliaryCNIChainName`, run last for every pod; undefined when it has no plugins.
 * @throws CniError 7 when `clusterNetwork` is not a path: the directory is next to it
 */
export async function auxiliaryNetwork(
  ctx: CallContext,
  cniVersion: string,
): Promise<ResolvedNetwork | undefined> {
  const { auxiliaryCNIChainName: name, clusterNetwork = "" } = ctx.config;
  if (name === undefined) return undefined;
  if (!clusterNetwork.includes("/")) {
    const message = `auxiliaryCNIChainName ${JSON.stringify(name)} needs a clusterNetwork that is a path, not ${JSON.stringify(clusterNetwork)}`;
    throw new CniError("InvalidNetworkConfig", message);
  }
  const files = ctx.deps.confFiles;
  const onWarning = (message: string): void => ctx.logger.warn({}, message);
  const dir = dirname(clusterNetwork);
  const list = await loadAuxiliaryChain({ dir, name, cniVersion, files, onWarning });
  if (list === undefined) return undefined;
  checkNotMetaPlugin(list, name);
  return { displayName: name, isDefault: false, isAuxiliary: true, list, capabilityArgs: {} };
}
