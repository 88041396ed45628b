import { parseArgs } from "node:util";
import { defaultPaths } from "#lib/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The command line; where it leaves something out, the configuration or the default decides. */
export interface DaemonFlags {
  readonly config?: string;
  readonly socket: string;
  readonly stateDir: string;
  readonly node?: string;
  readonly manifests?: string;
  readonly kubeconfig?: string;
  readonly http?: string;
  readonly cniConfDir?: string;
  readonly version: boolean;
  readonly help: boolean;
}

/** The text of `plexusd --help`. */
export const usage = `plexusd: the Plexus node daemon

usage: plexusd [--config FILE] [--manifests DIR | --kubeconfig FILE] [flags]

  --config FILE        configuration (docs/configuration.md); read again when it changes
  --manifests DIR      pods and NetworkAttachmentDefinitions from a directory instead of an API
  --kubeconfig FILE    the API to use; neither of the two = the cluster that plexusd runs in
  --node NAME          this node's name (default: the NODE_NAME variable, else the host's name)
  --socket PATH        socket for the shim (default ${defaultPaths.socket})
  --state-dir DIR      attachment records and teardown plans (default ${defaultPaths.stateDir})
  --http ADDR:PORT     health and metrics; off = none
  --cni-conf-dir DIR   write the node's CNI configuration into this directory
  --version            print the version
`;

const options = {
  config: { type: "string" },
  socket: { type: "string", default: defaultPaths.socket },
  "state-dir": { type: "string", default: defaultPaths.stateDir },
  node: { type: "string" },
  manifests: { type: "string" },
  kubeconfig: { type: "string" },
  http: { type: "string" },
  "cni-conf-dir": { type: "string" },
  version: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

/** @throws Error naming the flag that is unknown, lacks its value or excludes another */
export function parseFlags(argv: readonly string[]): DaemonFlags {
  const { values } = parseArgs({ args: [...argv], options, strict: true, allowPositionals: false });
  if (values.manifests !== undefined && values.kubeconfig !== undefined) {
    throw new Error("--manifests and --kubeconfig exclude each other");
  }
  const { "state-dir": stateDir, "cni-conf-dir": cniConfDir, ...rest } = values;
  return omitUndefined({ ...rest, stateDir, cniConfDir });
}
