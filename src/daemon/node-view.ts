import { join } from "node:path";
import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import { lookUpPlugin, type PluginSearch } from "#daemon/cni-conf/plugin-lookup.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import type { NodeView } from "#engine/inventory/inventory.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { ownNetlink } from "#host/own-netlink.ts";
import { executableNames } from "#lib/files/default-paths.ts";

interface NodeViewOptions {
  readonly config: Pick<EffectiveConfig, "current">;
  readonly confFiles: ConfFiles;
}

/** The node as plexusd sees it now. Plugins that it cannot see from its container count as installed. */
export async function nodeView(options: NodeViewOptions): Promise<NodeView> {
  const { config, confFiles } = options;
  const { cniConfDir, binDirs: searchPath, shimDir } = config.current().nodeConf;
  return {
    conf: await readPlexusConf(cniConfDir, confFiles),
    searchPath,
    async findPlugin(type) {
      const { kind } = await lookUpPlugin(type, pluginSearch(options));
      return kind === "missing" ? { outcome: "missing", message: "" } : { outcome: "found" };
    },
    netlink: ownNetlink(join(shimDir, executableNames.shim)),
  };
}

/** Where plexusd looks for plugins. */
export function pluginSearch({ config, confFiles: files }: NodeViewOptions): PluginSearch {
  return { binDirs: config.current().nodeConf.binDirs, files };
}
