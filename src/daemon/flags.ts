import { parseArgs } from "node:util";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The flags; the configuration or the default replaces a missing one. */
export interface DaemonFlags {
  readonly config?: string;
  readonly source: SourceFlag;
  readonly socket: string;
  readonly stateDir: string;
  readonly node?: string;
  readonly http?: string;
  readonly kubeletDir: string;
  readonly metrics?: string;
  readonly cniConfDir?: string;
  /** plexus-standalone serves the calls. */
  readonly thin?: boolean;
}

type SourceFlag =
  | { readonly kind: "manifests"; readonly dir: string }
  /** Without a kubeconfig: the API of the cluster that plexusd runs in. */
  | { readonly kind: "api"; readonly kubeconfig?: string };

export const usage = `plexusd: the Plexus node daemon

usage: plexusd [--config FILE] [--manifests DIR | --kubeconfig FILE] [flags]

  --config FILE        configuration (docs/user/configuration.md); read again when it changes
  --manifests DIR      pods and NetworkAttachmentDefinitions from a directory instead of an API
  --kubeconfig FILE    the API to use, with a certificate or a token; neither = plexusd's own cluster
  --node NAME          this node's name (default: the NODE_NAME variable, else the host's name)
  --socket PATH        socket for the shim (default ${defaultPaths.socket})
  --state-dir DIR      attachment records and teardown plans (default ${defaultPaths.stateDir})
  --http ADDR:PORT     health and metrics (default 127.0.0.1:19500 with an API); false = none
  --metrics ADDR:PORT  metrics over TLS, for callers with the right; *:PORT = every address
  --kubelet-dir DIR    the kubelet's directory, for devices (default ${defaultPaths.kubeletDir})
  --cni-conf-dir DIR   write the node's CNI configuration into this directory
  --thin               leave the calls to plexus-standalone, and keep its configuration and token
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
  metrics: { type: "string" },
  "cni-conf-dir": { type: "string" },
  "kubelet-dir": { type: "string", default: defaultPaths.kubeletDir },
  thin: { type: "boolean" },
  version: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

/** What plexusd runs with, or what it prints. @throws Error naming a flag that cannot be used */
export function parseFlags(argv: readonly string[]): DaemonFlags | "help" | "version" {
  const { values } = parseArgs({ args: [...argv], options, strict: true, allowPositionals: false });
  const { help, version, manifests, kubeconfig, ...others } = values;
  if (help) return "help";
  if (version) return "version";
  const { "state-dir": stateDir, "cni-conf-dir": cniConfDir, ...named } = others;
  const { "kubelet-dir": kubeletDir, ...sameName } = named;
  const source = sourceFlag(manifests, kubeconfig);
  return omitUndefined({ ...sameName, source, stateDir, cniConfDir, kubeletDir });
}

function sourceFlag(manifests?: string, kubeconfig?: string): SourceFlag {
  if (manifests === undefined) return omitUndefined({ kind: "api" as const, kubeconfig });
  if (kubeconfig === undefined) return { kind: "manifests", dir: manifests };
  throw new Error("--manifests and --kubeconfig exclude each other");
}
