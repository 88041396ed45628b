import { CniError } from "#cni/error.ts";
import { validateNetworkName } from "#cni/names.ts";
import type { NetConfList } from "./conf.ts";
import {
  type BrokenFile,
  type LoadOptions,
  readNetwork,
  tryReadNetwork,
  withExtension,
  withPluginsBeside,
} from "./conf-file.ts";

/**
 * Finds a network by the `name` in its configuration: first among `.conflist` files, then among
 * `.conf` and `.json` files. A broken file of another network is a warning here; libcni fails.
 * @throws CniError 7 when there is none; the file's own error when the network's file is broken
 */
export async function loadNetworkByName(
  options: LoadOptions & { readonly dir: string; readonly name: string },
): Promise<NetConfList> {
  const { dir, name, files } = options;
  validateNetworkName(name);
  const names = await files.list(dir);
  const candidates = [
    ...withExtension(names, ["conflist"]),
    ...withExtension(names, ["conf", "json"]),
  ];
  const broken: BrokenFile[] = [];
  for (const file of candidates) {
    const loaded = await tryReadNetwork(`${dir}/${file}`, options);
    if (loaded === undefined) continue;
    if ("error" in loaded) {
      if (loaded.name === name) throw loaded.error;
      broken.push(loaded);
    } else if (loaded.name === name) {
      return await withPluginsBeside(`${dir}/${file}`, loaded, options);
    }
  }
  throw nothingFound(dir, { broken, name, isEmpty: candidates.length === 0 });
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
  const names = withExtension(await options.files.list(dir), ["conflist", "conf", "json"]);
  const broken: BrokenFile[] = [];
  for (const file of names) {
    const path = `${dir}/${file}`;
    const loaded = await tryReadNetwork(path, options);
    if (loaded === undefined) continue;
    if ("error" in loaded) broken.push(loaded);
    else if (options.accept?.(loaded) ?? true)
      return await withPluginsBeside(path, loaded, options);
  }
  throw nothingFound(dir, { broken, isEmpty: names.length === 0 });
}

/** libcni's message, with the errors of skipped files: one of them may be the wanted network. */
function nothingFound(
  dir: string,
  search: { broken: readonly BrokenFile[]; name?: string; isEmpty: boolean },
): CniError {
  const { broken, name, isEmpty } = search;
  const isNamed = !isEmpty && name !== undefined;
  const reason = isNamed
    ? `no net configuration with name "${name}" in ${dir}`
    : `no net configurations found in ${dir}`;
  const skipped = broken.map((file) => file.error.message).join("; ");
  return new CniError(
    "MissingConfiguration",
    skipped === "" ? reason : `${reason}; skipped: ${skipped}`,
  );
}
