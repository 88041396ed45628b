import { tryParseJson } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type Json, membersOf } from "#lib/json.ts";
import { type ConfOptions, checkPluginCount, type NetConfList, parseNetConfList } from "./conf.ts";
import { parsePluginConf } from "./plugin-conf.ts";

/** Directories of network configurations. */
export interface ConfReader {
  /** File names, sorted bytewise; none for an absent directory. */
  list(dir: string): Promise<string[]>;
  /** @throws Error as of node:fs */
  read(path: string): Promise<string>;
  kind(path: string): Promise<"file" | "directory" | "absent">;
}

export interface LoadOptions extends Pick<ConfOptions, "unlimited"> {
  readonly files: ConfReader;
  /** Takes warnings about unusable files and ignored keys, one line each. */
  onWarning(message: string): void;
}

/** An unusable file, and the name of its network if that can be read. */
interface BrokenFile {
  readonly name: Json | undefined;
  readonly error: CniError;
}

/** The network of a file, or why there is none; undefined when the path is a directory. */
export async function tryReadNetwork(
  path: string,
  options: LoadOptions,
): Promise<NetConfList | BrokenFile | undefined> {
  if ((await options.files.kind(path)) === "directory") return undefined;
  try {
    return await readNetwork(path, options);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    options.onWarning(`network configuration skipped: ${error.message}`);
    return { name: await claimedName(path, options), error };
  }
}

/** Reads a file's network, in the form that its extension says. @throws CniError 5, 6, 7, 100 */
export async function readNetwork(path: string, options: LoadOptions): Promise<NetConfList> {
  const { onWarning, unlimited = false } = options;
  const list = parseNetConfList(await readText(path, options), {
    source: path,
    unlimited,
    allowNoPlugins: true,
    ...formOf(path),
  });
  for (const [index, plugin] of list.plugins.entries()) {
    for (const key of ["prevResult", "runtimeConfig"]) {
      if (!Object.hasOwn(plugin.raw, key)) continue;
      onWarning(`${path}: plugins[${index}].${key} is ignored: only a runtime may set it`);
    }
  }
  return list;
}

/** As in CNI 1.1.0's library, `.conf` and `.json` hold one plugin. */
function formOf(path: string): Pick<ConfOptions, "form"> {
  if (path.endsWith(".conflist")) return { form: "list" };
  return /\.(conf|json)$/.test(path) ? { form: "plugin" } : {};
}

async function readText(path: string, { files, unlimited }: LoadOptions): Promise<string> {
  const text = await files.read(path).catch((cause: unknown) => {
    throw new CniError("IoFailure", `error reading ${path}: ${errorMessage(cause)}`, { cause });
  });
  if (unlimited !== true) checkTextLimit(limits.conf, text, path);
  return text;
}

async function claimedName(path: string, options: LoadOptions): Promise<Json | undefined> {
  const value = tryParseJson(await readText(path, options).catch(() => ""));
  return membersOf(value, "name").at(-1);
}

/**
 * Appends the plugins of `<dir>/<network name>/*.conf` (CNI 1.1.0 §1 "loadOnlyInlinedPlugins"). The
 * name is already validated, so it cannot lead out of the directory.
 * @throws CniError when a file is broken or no plugin is left; 100 when there are too many
 */
export async function withPluginsBeside(
  path: string,
  list: NetConfList,
  options: LoadOptions,
): Promise<NetConfList> {
  const { files, unlimited } = options;
  const dir = `${path.slice(0, path.lastIndexOf("/") + 1)}${list.name}`;
  const isWanted = !list.loadOnlyInlinedPlugins && path.endsWith(".conflist");
  const names =
    isWanted && (await files.kind(dir)) === "directory"
      ? withExtension(await files.list(dir), ["conf"])
      : [];
  const plugins = [...list.plugins];
  for (const name of names) {
    const source = `${dir}/${name}`;
    plugins.push(parsePluginConf(await readText(source, options), { source }));
  }
  if (unlimited !== true) checkPluginCount(plugins, `network "${list.name}"`);
  if (plugins.length > 0) return { ...list, plugins };
  throw new CniError(
    "InvalidNetworkConfig",
    `no plugin configs found for network "${list.name}" in ${path} and ${dir}`,
  );
}

/** The names with one of these extensions. */
export function withExtension(names: readonly string[], extensions: readonly string[]): string[] {
  return names.filter((name) => {
    const dot = name.lastIndexOf(".");
    return dot >= 0 && extensions.includes(name.slice(dot + 1));
  });
}
