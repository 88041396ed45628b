import { readFile } from "node:fs/promises";
import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { loadNetworkByName, loadNetworkFile } from "#cni/conf/load.ts";
import { parseJson } from "#cni/document.ts";
import { CniErrorCode } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import { DriverError } from "#docker/driver-error.ts";
import type { ClusterSource, ConfFiles, Logger } from "#engine/ports.ts";
import type { JsonObject } from "#lib/json.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { parseManifestFile } from "#manifests/documents.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { type NetworkAttachmentDefinition, nadConf } from "#npwg/nad.ts";
import type { NetworkOptions } from "./network-options.ts";

/** Where networks are looked for that no option says. */
export interface NetworkSources {
  /** Definitions of the cluster, or of the driver's own directory of manifests; absent without either. */
  readonly source?: Pick<ClusterSource, "getNad">;
  /** Where configurations are looked up by their CNI name. */
  readonly confDir: string;
  readonly confFiles: ConfFiles;
  readonly logger: Logger;
}

/** A network as its definition has it. */
export interface ResolvedConf {
  /** `namespace/name` of the definition, or the CNI name. */
  readonly displayName: string;
  readonly list: NetConfList;
}

/** The namespace of definitions that are named without one. */
const defaultNamespace = "default";

/**
 * Finds the network that the option `plexus.network` names: a configuration in JSON, a file (a CNI
 * configuration, or a manifest with one definition), or a definition, else a configuration by its CNI name.
 * @throws DriverError, CniError or Error when there is none, or it cannot be used
 */
export async function resolveNetwork(
  options: Pick<NetworkOptions, "network" | "manifests">,
  sources: NetworkSources,
): Promise<ResolvedConf> {
  const found = await find(options, sources);
  checkNotMetaPlugin(found.list, found.displayName);
  return found;
}

/** The configuration of a network as JSON, to be kept. */
export function confOf({ list }: ResolvedConf): JsonObject {
  return toJson(list);
}

async function find(
  { network, manifests }: Pick<NetworkOptions, "network" | "manifests">,
  sources: NetworkSources,
): Promise<ResolvedConf> {
  if (network.trimStart().startsWith("{")) return inlineNetwork(network);
  if (network.startsWith("/")) return networkOfFile(network, sources);
  const reference = parseReference(network);
  if (manifests === undefined) return networkByName(network, reference, sources);
  await using directory = await ManifestDirectory.open(manifests, sources.logger);
  return networkByName(network, reference, { ...sources, source: directory });
}

function inlineNetwork(text: string): ResolvedConf {
  const source = "-o plexus.network";
  checkTextLimit(limits.conf, text, source);
  const list = parseNetConfList(parseJson(text, source, CniErrorCode.InvalidNetworkConfig), {
    source,
  });
  return { displayName: list.name, list };
}

async function networkOfFile(path: string, sources: NetworkSources): Promise<ResolvedConf> {
  if (/\.ya?ml$/.test(path)) {
    const { nads } = parseManifestFile(await readFile(path, "utf8"), path);
    const [nad, ...others] = nads;
    if (nad === undefined || others.length > 0) {
      throw new DriverError(
        `${path} has ${nads.length} NetworkAttachmentDefinitions, and must have one: name one of a directory with -o plexus.manifests`,
      );
    }
    return networkOfNad(nad, sources);
  }
  const list = await loadNetworkFile(path, loading(sources));
  return { displayName: list.name, list };
}

async function networkByName(
  text: string,
  reference: { readonly namespace: string; readonly name: string },
  sources: NetworkSources,
): Promise<ResolvedConf> {
  const nad = await sources.source?.getNad(reference, {});
  if (nad !== undefined) return networkOfNad(nad, sources);
  if (text.includes("/")) {
    const { namespace, name } = reference;
    throw new DriverError(`there is no NetworkAttachmentDefinition ${namespace}/${name}`);
  }
  const list = await loadNetworkByName({
    dir: sources.confDir,
    name: reference.name,
    ...loading(sources),
  });
  return { displayName: list.name, list };
}

async function networkOfNad(
  nad: NetworkAttachmentDefinition,
  sources: NetworkSources,
): Promise<ResolvedConf> {
  const byName = (name: string): Promise<NetConfList> =>
    loadNetworkByName({ dir: sources.confDir, name, ...loading(sources) });
  return { displayName: `${nad.namespace}/${nad.name}`, list: await nadConf(nad, byName) };
}

function loading({ confFiles, logger }: NetworkSources) {
  return { files: confFiles, onWarning: (message: string) => logger.warn({}, message) };
}

function parseReference(text: string): { readonly namespace: string; readonly name: string } {
  const parts = text.split("/");
  const [namespace, name] = parts.length === 1 ? [defaultNamespace, text] : parts;
  if (parts.length > 2 || !namespace || !name) {
    throw new DriverError(
      `-o plexus.network: ${JSON.stringify(text)} is no definition (NAME or NAMESPACE/NAME), file or JSON`,
    );
  }
  return { namespace, name };
}
