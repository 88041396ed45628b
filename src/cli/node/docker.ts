import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { type CommandLine, command, ExitCode } from "#cli/command.ts";
import { choiceFlag, commonFlags, listFlag, textFlag, wholeSeconds } from "#cli/flags.ts";
import type { DockerOptions } from "#docker/start.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { createLogger } from "#serving/logger.ts";

/** The process ends after calls in progress; the plugins of one call may take this long. */
const longestCallMs = 120_000;

const flags = {
  manifests: textFlag("DIR", "NetworkAttachmentDefinitions in YAML"),
  kubeconfig: textFlag("FILE", "NetworkAttachmentDefinitions of a cluster"),
  "conf-dir": textFlag("DIR", "CNI configurations by name", defaultPaths.confDir),
  "bin-dir": listFlag("DIR", "the CNI plugins; may be repeated", [defaultPaths.cniBinDir]),
  shim: textFlag("FILE", `the shim; by default ${executableNames.shim} in the first --bin-dir`),
  "plugin-socket": textFlag(
    "PATH",
    "where dockerd looks for the driver",
    "/run/docker/plugins/plexus.sock",
  ),
  "call-socket": textFlag(
    "PATH",
    "where the shim finds this process",
    defaultPaths.dockerCallSocket,
  ),
  "state-dir": textFlag("DIR", "networks and endpoints", `${commonFlags.stateDir.fallback}/docker`),
  scope: choiceFlag(["local", "global"], {
    help: "global for a managed plugin of a swarm",
    fallback: "local",
  }),
  "connectivity-scope": choiceFlag(["local", "global"], {
    help: "global if the networks reach other nodes",
    fallback: "local",
  }),
  "sandbox-root": textFlag(
    "DIR",
    "where the host's /var/run/docker is mounted, in a managed plugin",
  ),
  "reconcile-seconds": textFlag("N", "how often to look for endpoints that dockerd forgot", "30"),
  "log-level": choiceFlag(["debug", "info", "warn", "error"], {
    help: "the least severe messages to log",
    fallback: "info",
  }),
} as const;

export const dockerCommand = command({
  name: "docker",
  summary: "run the network driver for Docker until it is stopped",
  description: `Lets docker network create -d plexus make networks of CNI plugins. Runs as root in the network and
mount namespaces of dockerd; see docs/user/docker.md. --manifests and --kubeconfig exclude each
other.`,
  flags,
  stopMs: longestCallMs,
  async run(line, _output, stopping) {
    // The other commands do not load the engine.
    const { startDocker } = await import("#docker/start.ts");
    await using _driver = await startDocker(driverOptions(line));
    if (!stopping.aborted) await once(stopping, "abort");
    return ExitCode.Done;
  },
});

/** @throws Error naming the flag that cannot be used */
function driverOptions({ flags: given }: CommandLine<typeof flags>): DockerOptions {
  const manifests = given.manifests || undefined;
  const kubeconfig = given.kubeconfig || undefined;
  if (manifests !== undefined && kubeconfig !== undefined) {
    throw new Error("--manifests and --kubeconfig exclude each other");
  }
  const seconds = wholeSeconds("--reconcile-seconds", given["reconcile-seconds"]);
  const binDirs = given["bin-dir"];
  return {
    ...omitUndefined({ manifests, kubeconfig }),
    pluginSocket: given["plugin-socket"],
    callSocket: given["call-socket"],
    stateDir: given["state-dir"],
    confDir: given["conf-dir"],
    sandboxRoot: given["sandbox-root"],
    binDirs,
    shim: given.shim || join(binDirs[0] ?? "", executableNames.shim),
    capabilities: { Scope: given.scope, ConnectivityScope: given["connectivity-scope"] },
    forgottenCheckMs: seconds * 1000,
    pid: process.pid,
    logger: createLogger(given["log-level"]),
  };
}
