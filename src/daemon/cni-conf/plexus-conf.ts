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
import { isConfFile } from "./candidates.ts";
import type { Primary } from "./choose-primary.ts";

/** Lists exist since this version; an older primary's results are converted. */
const oldestListVersion = "0.3.1";

/** Without a primary of its own: what every runtime of today asks for. */
const defaultVersion = "1.0.0";

/** Where the default network's own name is not known: it is configured by a reference. */
const defaultName = "plexus";

/** What {@link plexusConfText} is made from. */
interface PlexusConfParts extends Pick<NodeConfSpec, "primaryDir" | "capabilities" | "delegates"> {
  /** Absent where the daemon's configuration names the default network. */
  readonly primary: Primary | undefined;
}

/**
 * Our file's text. The list has the default network's own name: runtimes keep what they know of an
 * attachment under its network's name (libcni's cache, CRI-O's valid attachments), so that pods that
 * were attached before Plexus are still found under that name, and after Plexus as well.
 */
export function plexusConfText(options: PlexusConfParts): string {
  const { primary } = options;
  const plugin = {
    type: "plexus",
    // JSON has no undefined: then the key is absent.
    clusterNetwork: primary && join(options.primaryDir, primary.file),
    capabilities: capabilitiesOf(primary, options.capabilities),
  };
  const conf = { cniVersion: versionOf(primary), name: nameOf(options), plugins: [plugin] };
  return `${JSON.stringify(conf, undefined, 2)}\n`;
}

/** Delegates that are configured inline have been validated before (takeover-checks.ts). */
function nameOf({ primary, delegates }: PlexusConfParts): string {
  const inline = delegates[0]?.name;
  return primary?.list.name ?? (typeof inline === "string" ? inline : defaultName);
}

/**
 * The runtime passes on only what the outermost plugin says that it is capable of. With the pod's annotations,
 * which no primary CNI needs to declare, pods are attached without asking the API about them.
 */
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

/** What the container runtime's directory holds, as far as our file is concerned. */
export interface CniConfDir {
  /** Our file's content; undefined when it is not there. */
  readonly text: string | undefined;
  /** Configurations that the container runtime takes before ours. */
  readonly sortedBefore: readonly string[];
  /** Files that look like ours under another name: `00-plexus.conflist.cilium_bak`. */
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

/** Our plugin's part of the file that the container runtime takes; empty when that is not ours. */
export async function readPlexusConf(dir: string, files: ConfFiles): Promise<JsonObject> {
  const { text } = await readCniConfDir(dir, files);
  try {
    const list: unknown = JSON.parse(text ?? "{}");
    const plugins = isJsonObject(list) && Array.isArray(list.plugins) ? list.plugins : [];
    return plugins.filter(isJsonObject).find(({ type }) => type === "plexus") ?? {};
  } catch {
    return {};
  }
}

/** Whether somebody has made the file from ours by appending to its name, to disable it. */
export function isRenamedPlexusConf(name: string): boolean {
  return name.startsWith(`${plexusConfName}.`);
}

/**
 * Writes our file. Readers see the old or the new content; the rename happens within the directory,
 * as container runtimes look at their directory again after a rename there, not after a creation.
 */
export async function writePlexusConf(dir: string, text: string): Promise<void> {
  await mkdir(dir, { recursive: true });
  await atomicWrite(join(dir, plexusConfName), text, { mode: 0o644 });
}

/** Removes what a crash between writing and renaming has left. */
export async function removeTemporaryFiles(dir: string, files: ConfFiles): Promise<void> {
  const names = await files.list(dir);
  const leftovers = names.filter((name) => targetOfTemporaryName(name) === plexusConfName);
  await Promise.all(leftovers.map((name) => rm(join(dir, name), { force: true })));
}
