import { join, parse } from "node:path";
import type { NetConfList } from "#cni/conf/conf.ts";
import { loadNetworkFile } from "#cni/conf/load.ts";
import { isPlexusdsList, type OmittedPlugin } from "#engine/config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { errorMessage } from "#lib/error-message.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { canBeDefaultNetwork } from "#npwg/meta-plugins.ts";
import { withoutElsewhere } from "./chained.ts";
import { examinePlugins } from "./plugin-lookup.ts";

/** A configuration to which the default network can be delegated. */
export interface Primary {
  readonly kind: "usable";
  readonly file: string;
  /** Without the plugins that run behind Plexus. */
  readonly list: NetConfList;
  /** These plugins. */
  readonly omitted: readonly OmittedPlugin[];
  /** Plugins that plexusd cannot see, one sentence. */
  readonly warning?: string;
}

/** A configuration file that may be the primary CNI's. */
export type PrimaryCandidate =
  | Primary
  | {
      readonly kind: "unusable";
      readonly file: string;
      readonly problem: string;
      /** Its agent has made it of Plexus's file, so it is no primary CNI's any more. */
      readonly isCopy?: true;
    };

/** Where the primary CNI's configuration may be. */
export interface PrimarySearch {
  readonly dir: string;
  readonly binDirs: readonly string[];
  readonly files: ConfFiles;
  /** What the default network leaves out, if a file has it. @default [] */
  readonly elsewhere?: readonly OmittedPlugin[];
}

const confExtensions = [".conf", ".conflist", ".json"];

/** Whether a container runtime treats a file of this name as a network configuration. */
export function isConfFile(name: string): boolean {
  return confExtensions.some((extension) => name.endsWith(extension));
}

/** The files that a container runtime would consider, without those that {@link canBeDefaultNetwork} rejects. */
export async function findCandidates(search: PrimarySearch): Promise<PrimaryCandidate[]> {
  const all = await search.files.list(search.dir);
  const names = all.filter((name) => isConfFile(name) && name !== plexusConfName);
  const examined = await Promise.all(names.map((name) => examine(name, search)));
  return examined.filter((candidate) => candidate !== undefined);
}

/**
 * Finds the file of that name. If it cannot be used, a file that differs only in the extension is
 * the same network: Linkerd's agent, for example, makes a `.conf` a `.conflist`.
 */
export function findFile(
  candidates: readonly PrimaryCandidate[],
  name: string | undefined,
): PrimaryCandidate | undefined {
  if (name === undefined) return undefined;
  const exact = candidates.find(({ file }) => file === name);
  const isSame = ({ kind, file }: PrimaryCandidate): boolean =>
    kind === "usable" && parse(file).name === parse(name).name;
  return exact?.kind === "usable" ? exact : (candidates.find(isSame) ?? exact);
}

async function examine(file: string, search: PrimarySearch): Promise<PrimaryCandidate | undefined> {
  let list: NetConfList;
  try {
    const options = { files: search.files, onWarning: (): void => undefined };
    list = await loadNetworkFile(join(search.dir, file), options);
  } catch (error) {
    return { kind: "unusable", file, problem: errorMessage(error) };
  }
  if (isPlexusdsList(list.plugins[0]?.raw ?? {})) {
    return { kind: "unusable", file, problem: `it is a copy of ${plexusConfName}`, isCopy: true };
  }
  if (!canBeDefaultNetwork(list)) return undefined;
  const called = withoutElsewhere(list, search.elsewhere ?? []);
  const types = called.list.plugins.map((plugin) => plugin.type);
  const { problem, warning } = await examinePlugins(types, search);
  return problem === undefined
    ? omitUndefined({ kind: "usable" as const, file, ...called, warning })
    : { kind: "unusable", file, problem };
}
