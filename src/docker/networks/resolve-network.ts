import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { loadNetworkByName, loadNetworkFile } from "#cni/conf/load.ts";
import { parseJson } from "#cni/document.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { readTextFile } from "#lib/files/read-file.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { parseManifestFile } from "#manifests/documents.ts";
import { type AttachmentPolicy, checkAttachmentPolicy } from "#npwg/attachment-policy.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { type NetworkAttachmentDefinition, nadConf } from "#npwg/nad.ts";

/** Where networks are looked up. */
export interface NetworkSources {
  /** The driver's directory of definitions, if it has one. */
  readonly manifests?: string;
  /** What networks may contain that are not files of `confDir`. @default anything */
  readonly policy?: AttachmentPolicy;
  readonly confDir: string;
  readonly confFiles: ConfFiles;
  readonly logger: Logger;
}

/** A network's configuration. */
export interface ResolvedConf {
  /** `namespace/name` of the definition, or the CNI name. */
  readonly displayName: string;
  readonly list: NetConfList;
  /** The text of the configuration; absent for a file of `confDir`. */
  readonly text?: string;
}

const defaultNamespace = "default";

/**
 * Finds the network that `plexus.network` names: a configuration in JSON, a file (a configuration
 * or a manifest with one definition), a definition, or a configuration by its CNI name.
 * @throws CniError or Error when it does not exist or cannot be used
 */
export async function resolveNetwork(
  network: string,
  sources: NetworkSources,
): Promise<ResolvedConf> {
  const found = await find(network, sources);
  checkNotMetaPlugin(found.list, found.displayName);
  const { list, text } = found;
  if (sources.policy && text) checkAttachmentPolicy(list, { config: text }, sources.policy);
  return found;
}

async function find(network: string, sources: NetworkSources): Promise<ResolvedConf> {
  if (network.trimStart().startsWith("{")) return inlineNetwork(network);
  if (/^\/.*\.ya?ml$/.test(network)) return networkOfManifest(network, sources);
  if (network.startsWith("/")) {
    const list = await loadNetworkFile(network, loading(sources));
    return { ...named(list), text: JSON.stringify(toJson(list)) };
  }
  return networkByName(network, sources);
}

function named(list: NetConfList): ResolvedConf {
  return { displayName: list.name, list };
}

function inlineNetwork(text: string): ResolvedConf {
  const source = "-o plexus.network";
  checkTextLimit(limits.conf, text, source);
  const json = parseJson(text, source, "InvalidNetworkConfig");
  return { ...named(parseNetConfList(json, { source })), text };
}

async function networkOfManifest(path: string, sources: NetworkSources): Promise<ResolvedConf> {
  const { nads } = parseManifestFile(readTextFile(path, "any"), path);
  const [nad] = nads;
  if (nad !== undefined && nads.length === 1) return networkOfNad(nad, sources);
  throw new Error(
    `${path} has ${nads.length} NetworkAttachmentDefinitions instead of one; ` +
      "put the file into the directory of --manifests, and name one of them",
  );
}

async function networkByName(text: string, sources: NetworkSources): Promise<ResolvedConf> {
  const { namespace, name } = parseReference(text);
  const { manifests, logger } = sources;
  const directory = manifests === undefined ? undefined : ManifestDirectory.open(manifests, logger);
  const nad = await directory?.getNad({ namespace, name });
  if (nad !== undefined) return networkOfNad(nad, sources);
  if (text.includes("/")) {
    throw new Error(`there is no NetworkAttachmentDefinition ${namespace}/${name}`);
  }
  return named(await loadByName(name, sources));
}

async function networkOfNad(
  nad: NetworkAttachmentDefinition,
  sources: NetworkSources,
): Promise<ResolvedConf> {
  const list = await nadConf(nad, (name) => loadByName(name, sources));
  return { displayName: `${nad.namespace}/${nad.name}`, list, text: nad.config?.trim() ?? "" };
}

function loadByName(name: string, sources: NetworkSources): Promise<NetConfList> {
  return loadNetworkByName({ dir: sources.confDir, name, ...loading(sources) });
}

function loading({ confFiles, logger }: NetworkSources) {
  return { files: confFiles, onWarning: (message: string) => logger.warn({}, message) };
}

function parseReference(text: string): { readonly namespace: string; readonly name: string } {
  const [, namespace = defaultNamespace, name] = /^(?:([^/]+)\/)?([^/]+)$/.exec(text) ?? [];
  if (name !== undefined) return { namespace, name };
  throw new Error(
    `-o plexus.network: ${JSON.stringify(text)} is not a definition (NAME or NAMESPACE/NAME), ` +
      "a file or JSON",
  );
}
