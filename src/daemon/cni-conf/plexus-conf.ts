import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { enabledCapabilities } from "#cni/conf/conf.ts";
import { compareVersions } from "#cni/versions.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { podAnnotationsCapability } from "#engine/plan/pod/runtime-pod.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { isConfFile, type Primary } from "./candidates.ts";

/** The first version with lists; results of an older primary are converted. */
const oldestListVersion = "0.3.1";

/** Without a primary: the version that current runtimes use. */
const defaultVersion = "1.0.0";

/** For a default network that is configured by reference, so its name is unknown. */
const defaultName = "plexus";

interface PlexusConfParts extends Pick<NodeConfSpec, "primaryDir" | "capabilities" | "delegates"> {
  /** Absent if plexusd's configuration names the default network. */
  readonly primary: Primary | undefined;
}

/**
 * The text of Plexus's file. The list has the default network's name, because runtimes store
 * attachments under it (libcni's cache, CRI-O's valid attachments). So they also find pods attached
 * before Plexus was installed or deleted after it was removed.
 */
export function plexusConfText(options: PlexusConfParts): string {
  const { primary } = options;
  const plugin = {
    type: "plexus",
    clusterNetwork: primary && join(options.primaryDir, primary.file),
    capabilities: capabilitiesOf(primary, options.capabilities),
  };
  const conf = { cniVersion: versionOf(primary), name: nameOf(options), plugins: [plugin] };
  return `${JSON.stringify(conf, undefined, 2)}\n`;
}

/** prerequisites.ts has validated inline delegates. */
function nameOf({ primary, delegates }: PlexusConfParts): string {
  const inline = delegates[0]?.name;
  return primary?.list.name ?? (typeof inline === "string" ? inline : defaultName);
}

/** Runtimes pass only the outermost plugin's capabilities. Annotations save reads of the API. */
function capabilitiesOf(
  primary: Primary | undefined,
  configured: Readonly<Record<string, boolean>>,
): Record<string, true> {
  const names = new Set(primary === undefined ? [] : enabledCapabilities(primary.list));
  names.add(podAnnotationsCapability);
  for (const [name, wanted] of Object.entries(configured)) {
    if (wanted) names.add(name);
    else names.delete(name);
  }
  return Object.fromEntries([...names].sort().map((name) => [name, true]));
}

function versionOf(primary: Primary | undefined): string {
  if (primary === undefined) return defaultVersion;
  const version = primary.list.cniVersion;
  return version === "" || compareVersions(version, oldestListVersion) < 0
    ? oldestListVersion
    : version;
}

/** The container runtime's directory, as it concerns Plexus's file. */
export interface CniConfDir {
  /** The text of Plexus's file; undefined when it does not exist. */
  readonly text: string | undefined;
  /** Configurations that the container runtime prefers. */
  readonly sortedBefore: readonly string[];
  /** Copies of Plexus's file under another name: `00-plexus.conflist.cilium_bak`. */
  readonly renamed: readonly string[];
}

/** Reads the container runtime's directory; one that does not exist is empty. */
export async function readCniConfDir(dir: string, files: ConfFiles): Promise<CniConfDir> {
  const names = await files.list(dir);
  const own = names.indexOf(plexusConfName);
  const renamed = names.filter(isRenamedPlexusConf);
  if (own < 0) return { text: undefined, sortedBefore: [], renamed };
  const text = await readFile(join(dir, plexusConfName), "utf8").catch(() => undefined);
  return { text, sortedBefore: names.slice(0, own).filter(isConfFile), renamed };
}

/** Plexus's plugin configuration in its file; empty if there is none. */
export async function readPlexusConf(dir: string, files: ConfFiles): Promise<JsonObject> {
  return pluginConfOf((await readCniConfDir(dir, files)).text);
}

/** Plexus's plugin configuration in the text of its file; empty if there is none. */
export function pluginConfOf(text: string | undefined): JsonObject {
  try {
    const list: unknown = JSON.parse(text ?? "{}");
    const plugins = isJsonObject(list) && Array.isArray(list.plugins) ? list.plugins : [];
    return plugins.filter(isJsonObject).find(({ type }) => type === "plexus") ?? {};
  } catch {
    return {};
  }
}

/** Whether a file is Plexus's under a longer name, which disables it. */
export function isRenamedPlexusConf(name: string): boolean {
  return name.startsWith(`${plexusConfName}.`);
}

/**
 * Writes Plexus's file atomically. The rename happens within the directory, because container
 * runtimes read it again after a rename, not after a creation.
 */
export async function writePlexusConf(dir: string, text: string): Promise<void> {
  await mkdir(dir, { recursive: true });
  await atomicWrite(join(dir, plexusConfName), text, { mode: 0o644 });
}

/** Removes temporary files that a crash left. */
export async function removeTemporaryFiles(dir: string, files: ConfFiles): Promise<void> {
  const names = await files.list(dir);
  const leftovers = names.filter((name) => targetOfTemporaryName(name) === plexusConfName);
  await Promise.all(leftovers.map((name) => rm(join(dir, name), { force: true })));
}
