import { dirname } from "node:path/posix";
import type { ConfReader } from "#cni/conf/conf-file.ts";
import { loadAuxiliaryChain } from "#cni/conf/load.ts";
import { currentVersion } from "#cni/versions.ts";
import { configForCall, type EngineConfig } from "#engine/config.ts";
import type { JsonObject } from "#lib/json.ts";

/**
 * Why new pods start without the network of `auxiliaryCNIChainName`. Empty also when ADDs fail,
 * which say so themselves. `conf` is the container runtime's.
 */
export async function auxiliaryProblems(
  daemon: Partial<EngineConfig>,
  conf: JsonObject,
  files: ConfReader,
): Promise<string[]> {
  const problems: string[] = [];
  try {
    const { auxiliaryCNIChainName: name, clusterNetwork = "" } = configForCall(daemon, conf);
    if (name === undefined || !clusterNetwork.includes("/")) return [];
    const from = { dir: dirname(clusterNetwork), name, cniVersion: currentVersion, files };
    await loadAuxiliaryChain({ ...from, onWarning: (message) => problems.push(message) });
    return problems;
  } catch {
    return [];
  }
}
