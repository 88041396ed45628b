import * as z from "zod";
import { absolutePath } from "#engine/config-keys.ts";
import type { ConfigKeys } from "#engine/config-table.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { callKeys } from "./call-config.ts";

/** A qualified name: what the API server accepts as the key of a taint. */
const taintKey = () =>
  z.string().regex(/^([a-z0-9][a-z0-9.-]{0,252}\/)?[A-Za-z0-9][\w.-]{0,62}$/, {
    error: "must be the key of a taint: plexus.dev/not-ready",
  });

const directories = () =>
  z.union([absolutePath(), z.tuple([absolutePath()], absolutePath())], {
    error: "must be an absolute path, or a list of them",
  });

/** The keys of plexusd's file beside those of the engine. */
export const daemonKeys = {
  ...callKeys,
  capabilities: {
    schema: () => z.record(z.string(), z.boolean()),
    default: {},
    description:
      "Capabilities that the node's CNI configuration declares in addition to the primary CNI's. `false` omits one.",
  },
  logLevel: {
    schema: () => z.enum(["debug", "info", "warn", "error"]),
    default: "info",
    description: "Minimum severity of log messages.",
  },
  cniConfDir: {
    schema: absolutePath,
    default: defaultPaths.cniConfDir,
    restart: true,
    description: `The container runtime's configuration directory, where plexusd writes \`${plexusConfName}\`. Mount it at the same path in plexusd's container.`,
  },
  cniBinDir: {
    schema: directories,
    default: defaultPaths.cniBinDir,
    description:
      "The container runtime's plugin directory, or a list. The shim is installed in the first one. plexusd writes the node's CNI configuration only if the primary CNI's plugins are in one of them. Owner and mode do not matter, because the container runtime trusts these directories too.",
  },
  startupTaint: {
    schema: taintKey,
    description:
      "Key of a taint that plexusd removes from its Node when it first serves the node: [fresh nodes](../operations/fresh-nodes.md). Needs `deploy/components/startup-taint`.",
  },
  networkPlacement: {
    schema: () => z.array(z.enum(["labels", "resources", "condition"])).readonly(),
    default: [],
    description:
      "What plexusd keeps on its Node about [networks that not every node has](../user/placement.md). Needs `deploy/components/network-placement`.",
  },
  primaryDir: {
    schema: absolutePath,
    restart: true,
    description:
      "The directory where the primary CNI writes its configuration, if it is not `cniConfDir`: [fresh nodes](../operations/fresh-nodes.md). plexusd takes the first usable file in byte order that does not belong to a meta-plugin, and first waits until the directory is unchanged for three seconds. For another file, set `clusterNetwork` to its path.",
  },
} as const satisfies ConfigKeys;
