import { errorMessage } from "#lib/error-message.ts";
import { type NetConfList, parseNetConfList } from "./conf.ts";
import { type LoadOptions, withExtension, withPluginsBeside } from "./conf-file.ts";

/**
 * The network whose plugins are the `*.conf` files of `<dir>/<name>`, in the order of their names: Multus'
 * auxiliary CNI chain. Undefined when there are none. Files that cannot be used make it undefined, too, with a
 * warning: as in Multus, no pod fails for them.
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
