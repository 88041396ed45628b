import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  listFlag,
  stringFlag,
} from "#cli/command.ts";
import type { DockerOptions } from "#docker/start.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { createLogger } from "#serving/logger.ts";

const defaults = {
  pluginSocket: "/run/docker/plugins/plexus.sock",
  callSocket: "/run/plexus/docker.sock",
  stateDir: "/var/lib/plexus/docker",
} as const;

/** What is under way is answered first: the plugins of one call may take so long. */
const longestCallMs = 120_000;

const scopes = ["local", "global"] as const;

/** `plexusctl docker`. */
export const dockerCommand: Command = {
  name: "docker",
  synopsis: "[--manifests DIR | --kubeconfig FILE] [flags]",
  summary: "serve Docker as a network driver, until it is stopped",
  help: `Makes networks of CNI plugins available to docker network create -d plexus. Runs as root in the
network and mount namespaces of dockerd; docs/user/docker.md describes it.

  --manifests DIR         NetworkAttachmentDefinitions in YAML
  --kubeconfig FILE       NetworkAttachmentDefinitions of a cluster
  --conf-dir DIR          CNI configurations by name (default ${defaultPaths.confDir})
  --bin-dir DIR           the CNI plugins; may be repeated (default ${defaultPaths.cniBinDir})
  --shim FILE             the shim (default plexus in the first --bin-dir)
  --plugin-socket PATH    where dockerd looks for the driver (default ${defaults.pluginSocket})
  --call-socket PATH      where the shim finds this process (default ${defaults.callSocket})
  --state-dir DIR         networks and endpoints (default ${defaults.stateDir})
  --scope SCOPE           local, or global for a managed plugin of a swarm (default local)
  --connectivity-scope S  local or global: whether networks reach other nodes (default local)
  --sandbox-root DIR      where the host's /var/run/docker is mounted, in a managed plugin
  --reconcile-seconds N   how often to look for what dockerd has forgotten (default 30)
  --log-level LEVEL       debug, info, warn or error (default info)`,
  flags: {
    manifests: { type: "string" },
    kubeconfig: { type: "string" },
    "conf-dir": { type: "string", default: defaultPaths.confDir },
    "bin-dir": { type: "string", multiple: true, default: [defaultPaths.cniBinDir] },
    shim: { type: "string" },
    "plugin-socket": { type: "string", default: defaults.pluginSocket },
    "call-socket": { type: "string", default: defaults.callSocket },
    "state-dir": { type: "string", default: defaults.stateDir },
    scope: { type: "string", default: "local" },
    "connectivity-scope": { type: "string", default: "local" },
    "sandbox-root": { type: "string", default: "" },
    "reconcile-seconds": { type: "string", default: "30" },
    "log-level": { type: "string", default: "info" },
  },
  argumentCount: 0,
  stopMs: longestCallMs,
  run: docker,
};

async function docker(
  args: CommandArguments,
  _output: CliOutput,
  stopping: AbortSignal,
): Promise<ExitCode> {
  // The other commands do without the engine.
  const { startDocker } = await import("#docker/start.ts");
  const driver = await startDocker(readOptions(args));
  if (!stopping.aborted) await once(stopping, "abort");
  await driver.stop();
  return ExitCode.Done;
}

/** @throws Error naming the flag that cannot be used */
function readOptions(args: CommandArguments): DockerOptions {
  const binDirs = listFlag(args, "bin-dir");
  const [manifests, kubeconfig, shim] = ["manifests", "kubeconfig", "shim"].map(
    (name) => stringFlag(args, name) || undefined,
  );
  if (manifests !== undefined && kubeconfig !== undefined) {
    throw new Error("--manifests and --kubeconfig exclude each other");
  }
  return {
    ...omitUndefined({ manifests, kubeconfig }),
    pluginSocket: stringFlag(args, "plugin-socket"),
    callSocket: stringFlag(args, "call-socket"),
    stateDir: stringFlag(args, "state-dir"),
    confDir: stringFlag(args, "conf-dir"),
    sandboxRoot: stringFlag(args, "sandbox-root"),
    binDirs,
    shim: shim ?? join(binDirs[0] ?? "", executableNames.shim),
    capabilities: {
      Scope: readScope(args, "scope"),
      ConnectivityScope: readScope(args, "connectivity-scope"),
    },
    reconcileMs: readSeconds(args, "reconcile-seconds") * 1000,
    pid: process.pid,
    logger: createLogger({ level: readLevel(args), format: undefined }),
  };
}

function readScope(args: CommandArguments, flag: string): "local" | "global" {
  const scope = scopes.find((each) => each === stringFlag(args, flag));
  if (scope === undefined) throw new Error(`--${flag} must be local or global`);
  return scope;
}

function readSeconds(args: CommandArguments, flag: string): number {
  const seconds = Number(stringFlag(args, flag));
  if (Number.isInteger(seconds) && seconds > 0) return seconds;
  throw new Error(`--${flag} must be a whole number of seconds`);
}

function readLevel(args: CommandArguments): string {
  const level = stringFlag(args, "log-level");
  if (["debug", "info", "warn", "error"].includes(level)) return level;
  throw new Error("--log-level must be debug, info, warn or error");
}
