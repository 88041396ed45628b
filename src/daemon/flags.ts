import { parseArgs } from "node:util";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

export type DaemonCommand =
  | { readonly kind: "help" }
  | { readonly kind: "version" }
  | { readonly kind: "run"; readonly flags: DaemonFlags };

/** The flags; the configuration or the default replaces a missing one. */
export interface DaemonFlags {
  readonly config?: string;
  readonly source: SourceFlag;
  readonly socket: string;
  readonly stateDir: string;
  readonly node?: string;
  readonly http?: string;
  readonly metrics?: string;
  readonly cniConfDir?: string;
  /** Sources as plexus-standalone chooses them: see `LocalSources`. */
  readonly local?: boolean;
  /** Seconds without calls until plexusd ends. Needs the socket of systemd. */
  readonly idleExit?: number;
  /** plexus-standalone serves the calls. */
  readonly thin?: boolean;
}

type SourceFlag =
  | { readonly kind: "manifests"; readonly dir: string }
  /** Pods as the runtime describes them, and the configuration files in `confDir`. */
  | { readonly kind: "files" }
  /** Without a kubeconfig: the API of the cluster that plexusd runs in. */
  | { readonly kind: "api"; readonly kubeconfig?: string };

export const usage = `plexusd: the Plexus node daemon

usage: plexusd [--config FILE] [--manifests DIR | --kubeconfig FILE | --local] [flags]

  --config FILE        configuration (docs/user/configuration.md); read again when it changes
  --manifests DIR      pods and NetworkAttachmentDefinitions from a directory instead of an API
  --local              no Kubernetes: configuration, pods and networks as plexus-standalone finds them
  --kubeconfig FILE    the API to use; none of the three = the cluster that plexusd runs in
  --node NAME          this node's name (default: the NODE_NAME variable, else the host's name)
  --socket PATH        socket for the shim (default ${defaultPaths.socket})
  --state-dir DIR      attachment records and teardown plans (default ${defaultPaths.stateDir})
  --http ADDR:PORT     health and metrics; false = none
  --metrics ADDR:PORT  metrics over TLS, for callers with the right; *:PORT = every address
  --cni-conf-dir DIR   write the node's CNI configuration into this directory
  --idle-exit SECONDS  end after this time without calls; systemd's socket then starts plexusd again
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
  local: { type: "boolean" },
  "idle-exit": { type: "string" },
  thin: { type: "boolean" },
  version: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

/** @throws Error naming a flag that is unknown, has no value or excludes another one */
export function parseFlags(argv: readonly string[]): DaemonCommand {
  const { values } = parseArgs({ args: [...argv], options, strict: true, allowPositionals: false });
  const { help, version, manifests, kubeconfig, ...others } = values;
  if (help) return { kind: "help" };
  if (version) return { kind: "version" };
  const { "state-dir": stateDir, "cni-conf-dir": cniConfDir, ...rest } = others;
  const { "idle-exit": idle, ...sameName } = rest;
  const source = sourceFlag(manifests, kubeconfig, sameName.local);
  const idleExit = idle === undefined ? undefined : seconds(idle);
  const flags = omitUndefined({ ...sameName, source, stateDir, cniConfDir, idleExit });
  return { kind: "run", flags };
}

function sourceFlag(manifests?: string, kubeconfig?: string, local?: boolean): SourceFlag {
  const given = [manifests, kubeconfig, local].filter((each) => each !== undefined);
  if (given.length > 1) throw new Error("--manifests, --kubeconfig and --local exclude each other");
  if (local) return { kind: "files" };
  if (manifests !== undefined) return { kind: "manifests", dir: manifests };
  return omitUndefined({ kind: "api" as const, kubeconfig });
}

function seconds(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new Error(`--idle-exit ${text}: must be a number of seconds, at least 1`);
}
