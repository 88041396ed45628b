import { CniError } from "#cni/error.ts";
import { validateNetworkName } from "#cni/names.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type NetConfList, parseNetConfList } from "./conf.ts";
import {
  type LoadOptions,
  readNetwork,
  tryReadNetwork,
  withExtension,
  withPluginsBeside,
} from "./conf-file.ts";

/**
 * Finds a network that `accept` takes by the `name` in its configuration: first among `.conflist`
 * files, then among `.conf` and `.json` files. A broken file of another network is a warning here; libcni fails.
 * @throws CniError 7 when there is none; the file's own error when the network's file is broken
 */
export async function loadNetworkByName(
  options: LoadOptions & {
    readonly dir: string;
    readonly name: string;
    accept?(list: NetConfList): boolean;
  },
): Promise<NetConfList> {
  const { name, accept = () => true } = options;
  validateNetworkName(name);
  const order = [["conflist"], ["conf", "json"]];
  return await search({ ...options, order, accept: (l) => l.name === name && accept(l) });
}

/** Loads the network of a file; its extension says which form it has. @throws CniError 5, 6, 7 */
export async function loadNetworkFile(path: string, options: LoadOptions): Promise<NetConfList> {
  return await withPluginsBeside(path, await readNetwork(path, options), options);
}

/**
 * Loads the first usable network that `accept` takes, in bytewise order as a container runtime.
 * @throws CniError 7 when there is none
 */
export async function loadFirstNetwork(
  dir: string,
  options: LoadOptions & { accept?(list: NetConfList): boolean },
): Promise<NetConfList> {
  const order = [["conflist", "conf", "json"]];
  return await search({ accept: () => true, ...options, dir, order });
}

/**
 * Multus' auxiliary CNI chain: the `*.conf` files in `<dir>/<name>`, sorted by name. Undefined when
 * there are none or, with a warning as in Multus, when one is unusable.
 */
export async function loadAuxiliaryChain(
  options: LoadOptions & {
    readonly dir: string;
    readonly name: string;
    readonly cniVersion: string;
  },
): Promise<NetConfList | undefined> {
  const { dir, name, cniVersion, files, onWarning } = options;
  const source = `${dir}/${name}`;
  if ((await files.kind(source)) !== "directory") return undefined;
  if (withExtension(await files.list(source), ["conf"]).length === 0) return undefined;
  const empty = parseNetConfList({ cniVersion, name }, { source, allowNoPlugins: true });
  try {
    return await withPluginsBeside(`${source}.conflist`, empty, options);
  } catch (error) {
    onWarning(`the auxiliary CNI chain ${source} is left out: ${errorMessage(error)}`);
    return undefined;
  }
}

interface Search extends LoadOptions {
  readonly dir: string;
  /** Groups of file extensions, in the order in which they are tried. */
  readonly order: readonly (readonly string[])[];
  readonly name?: string;
  accept(list: NetConfList): boolean;
}

/** Fails with libcni's message and the errors of skipped files: one may be the wanted network. */
async function search(options: Search): Promise<NetConfList> {
  const { dir, order, name, accept } = options;
  const names = await options.files.list(dir);
  const candidates = order.flatMap((extensions) => withExtension(names, extensions));
  const skipped: string[] = [];
  for (const file of candidates) {
    const path = `${dir}/${file}`;
    const loaded = await tryReadNetwork(path, options);
    if (loaded === undefined) continue;
    if (!("error" in loaded)) {
      if (accept(loaded)) return await withPluginsBeside(path, loaded, options);
    } else if (name !== undefined && loaded.name === name) throw loaded.error;
    else skipped.push(loaded.error.message);
  }
  const isNamed = candidates.length > 0 && name !== undefined;
  const wanted = isNamed ? `configuration with name "${name}"` : "configurations found";
  const reasons = skipped.length === 0 ? "" : `; skipped: ${skipped.join("; ")}`;
  throw new CniError("MissingConfiguration", `no net ${wanted} in ${dir}${reasons}`);
}
