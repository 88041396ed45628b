import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { isPlexusdsList } from "#engine/config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { isJsonObject, type JsonObject, parseExactly } from "#lib/json.ts";
import { isConfFile } from "./candidates.ts";
import { type PlexusConf, parsePlexusConf, pluginConfOf, pluginsOf } from "./plexus-conf.ts";

/** The container runtime's directory, as it concerns Plexus's file. */
export interface CniConfDir {
  /** The text of Plexus's file; undefined when it does not exist. */
  readonly text: string | undefined;
  /** What it says; undefined when it cannot be used. */
  readonly conf: PlexusConf | undefined;
  /** Configurations that the container runtime prefers. */
  readonly sortedBefore: readonly string[];
  /** Files of other agents that call Plexus and then the plugin of the agent, in the runtime's order. */
  readonly copies: readonly ConfCopy[];
  /** The plugins of all files but Plexus's own. */
  readonly others: readonly PluginConf[];
  /** Copies of Plexus's file under another name: `00-plexus.conflist.cilium_bak`. */
  readonly renamed: readonly string[];
}

/** A list of another agent that begins with the plugin of Plexus's file. */
export interface ConfCopy {
  readonly name: string;
  readonly conf: PlexusConf;
}

/** Reads the container runtime's directory; one that does not exist is empty. */
export async function readCniConfDir(dir: string, files: ConfFiles): Promise<CniConfDir> {
  const names = await files.list(dir);
  const own = names.indexOf(plexusConfName);
  const text = own < 0 ? undefined : await readText(dir, plexusConfName, files);
  const others = names.filter((name) => isConfFile(name) && name !== plexusConfName);
  const read = await Promise.all(
    others.map(async (name) => ({ name, text: (await readText(dir, name, files)) ?? "" })),
  );
  return {
    text,
    conf: text === undefined ? undefined : parsePlexusConf(text),
    sortedBefore: own < 0 ? [] : names.slice(0, own).filter(isConfFile),
    copies: read.flatMap(copyIn),
    others: read.flatMap(({ text: other }) => pluginsOf(other)),
    renamed: names.filter(isRenamedPlexusConf),
  };
}

function copyIn({ name, text }: { name: string; text: string }): ConfCopy[] {
  const conf = parsePlexusConf(text);
  if (conf === undefined || conf.chained.length === 0) return [];
  return isPlexusdsList(conf.own.plugins[0]) ? [{ name, conf }] : [];
}

function readText(dir: string, name: string, files: ConfFiles): Promise<string | undefined> {
  return files.read(join(dir, name)).catch(() => undefined);
}

/** The file that the container runtime uses, if it is a copy and not Plexus's own. */
export function firstCopy({ sortedBefore, copies }: CniConfDir): ConfCopy | undefined {
  return copies.find(({ name }) => name === sortedBefore[0]);
}

/** The copies that the container runtime does not use. Another runtime's list has another name. */
export function unusedCopies({ conf, sortedBefore, copies }: CniConfDir): ConfCopy[] {
  return copies.filter(
    (copy) => copy.name !== sortedBefore[0] && copy.conf.own.name === conf?.own.name,
  );
}

/** The plugins that the container runtime executes after Plexus's. */
export function chainedIn(dir: CniConfDir): readonly PluginConf[] {
  return firstCopy(dir)?.conf.chained ?? dir.conf?.chained ?? [];
}

/** Plexus's plugin configuration in its file; empty if there is none. */
export async function readPlexusConf(dir: string, files: ConfFiles): Promise<JsonObject> {
  const names = await files.list(dir);
  return names.includes(plexusConfName)
    ? pluginConfOf(await readText(dir, plexusConfName, files))
    : {};
}

/** Whether a file is Plexus's, perhaps disabled. */
export function isPlexusConfName(name: string): boolean {
  return name === plexusConfName || isRenamedPlexusConf(name);
}

/** Whether a file is Plexus's under a longer name, which disables it. */
function isRenamedPlexusConf(name: string): boolean {
  return name.startsWith(`${plexusConfName}.`);
}

/** Another process wrote the file between its reading and the rename. */
class ChangedMeanwhileError extends Error {}

/**
 * Writes Plexus's file atomically, in place of the text that was read: an agent may append its
 * plugin at the same moment. The rename happens within the directory, because container runtimes
 * read it again after a rename, not after a creation.
 * @returns false when the file is another one by now; nothing is written then
 */
export async function writePlexusConf(
  dir: string,
  text: string,
  { inPlaceOf, files }: { readonly inPlaceOf: string | undefined; readonly files: ConfFiles },
): Promise<boolean> {
  await mkdir(dir, { recursive: true, mode: 0o755 });
  const path = join(dir, plexusConfName);
  const beforeRename = async (file: { sync(): Promise<void> }): Promise<void> => {
    await file.sync();
    if ((await readText(dir, plexusConfName, files)) !== inPlaceOf)
      throw new ChangedMeanwhileError();
  };
  try {
    await swapIn(path, text, { mode: 0o644, beforeRename });
  } catch (error) {
    if (error instanceof ChangedMeanwhileError) return false;
    throw error;
  }
  await syncDirectory(dirname(path));
  return true;
}

/** Removes temporary files that a crash left. What cannot be removed stays until the next start. */
export async function removeTemporaryFiles(dir: string, files: ConfFiles): Promise<void> {
  const names = await files.list(dir);
  const leftovers = names.filter((name) => targetOfTemporaryName(name) === plexusConfName);
  await Promise.allSettled(leftovers.map((name) => rm(join(dir, name), { force: true })));
}

/**
 * The lists that call Plexus, such as nerdctl's, but for plexusd's own and copies of it, which have
 * its name. `disablesGc`: a runtime that collects garbage in every list leaves this one alone.
 */
export async function otherLists(
  dir: string,
  files: ConfFiles,
): Promise<{ file: string; disablesGc: boolean }[]> {
  const own = await readList(join(dir, plexusConfName), files);
  const names = (await files.list(dir)).filter((file) => isConfFile(file));
  const lists = await Promise.all(
    names.map(async (file) => ({ file, list: await readList(join(dir, file), files) })),
  );
  return lists
    .filter(({ list }) => list !== undefined && callsPlexus(list) && list.name !== own?.name)
    .map(({ file, list }) => ({ file, disablesGc: list?.disableGC === true }));
}

async function readList(path: string, files: ConfFiles): Promise<JsonObject | undefined> {
  try {
    const list: unknown = parseExactly(await files.read(path));
    return isJsonObject(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

function callsPlexus({ type, plugins }: JsonObject): boolean {
  const types = Array.isArray(plugins) ? plugins.filter(isJsonObject).map((each) => each.type) : [];
  return [type, ...types].includes("plexus");
}
