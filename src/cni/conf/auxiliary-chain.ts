import { errorMessage } from "#lib/error-message.ts";
import { type NetConfList, parseNetConfList } from "./conf.ts";
import { type LoadOptions, withExtension, withPluginsBeside } from "./conf-file.ts";

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
