import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { enabledCapabilities } from "#cni/conf/conf.ts";
import { compareVersions } from "#cni/versions.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { atomicWrite } from "#lib/atomic-write.ts";
import { targetOfTemporaryName } from "#lib/temporary-name.ts";
import type { Primary } from "./choose.ts";
import { isConfFile, ownFileName } from "./primary.ts";

/** Lists exist since this version; an older primary's results are converted. */
const oldestListVersion = "0.3.1";

/** Without a primary of its own: what every runtime of today asks for. */
const defaultVersion = "1.0.0";

/** The file's text. `primary` is left out where the daemon's configuration names the default network. */
export function ownConf(options: {
  readonly primary?: Primary;
  readonly primaryDir: string;
  readonly capabilities: Readonly<Record<string, boolean>>;
}): string {
  const { primary } = options;
  const plugin = {
    type: "plexus",
    ...(primary && { clusterNetwork: join(options.primaryDir, primary.file) }),
    capabilities: capabilitiesOf(primary, options.capabilities),
  };
  const conf = { cniVersion: versionOf(primary), name: "plexus", plugins: [plugin] };
  return `${JSON.stringify(conf, undefined, 2)}\n`;
}

/** The runtime passes on only what the outermost plugin says that it is capable of. */
function capabilitiesOf(
  primary: Primary | undefined,
  configured: Readonly<Record<string, boolean>>,
): Record<string, true> {
  const names = new Set(primary === undefined ? [] : enabledCapabilities(primary.list));
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

/** How the runtime's directory looks from our file's point of view. */
export interface OwnFileView {
  /** Its content; undefined when it is not there. */
  readonly text: string | undefined;
  /** Files that the container runtime reads first. */
  readonly before: readonly string[];
  /** Files that look like ours under another name: `00-plexus.conflist.cilium_bak`. */
  readonly renamed: readonly string[];
}

/** Looks at the runtime's directory. */
export async function viewOwnFile(dir: string, files: ConfFiles): Promise<OwnFileView> {
  const names = await files.list(dir);
  const own = names.indexOf(ownFileName);
  const renamed = names.filter((name) => name.startsWith(`${ownFileName}.`));
  if (own < 0) return { text: undefined, before: [], renamed };
  const text = await readFile(join(dir, ownFileName), "utf8").catch(() => undefined);
  return { text, before: names.slice(0, own).filter(isConfFile), renamed };
}

/**
 * Writes our file. Readers see the old or the new content; the rename happens within the directory,
 * as container runtimes look at their directory again after a rename there, not after a creation.
 */
export async function writeOwnFile(dir: string, text: string): Promise<void> {
  await mkdir(dir, { recursive: true });
  await atomicWrite(join(dir, ownFileName), text, { mode: 0o644 });
}

/** Removes what a crash between writing and renaming has left. */
export async function sweepLeftovers(dir: string, files: ConfFiles): Promise<void> {
  const names = await files.list(dir);
  const leftovers = names.filter((name) => targetOfTemporaryName(name) === ownFileName);
  await Promise.all(leftovers.map((name) => rm(join(dir, name), { force: true })));
}
