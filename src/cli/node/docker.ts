import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { command, ExitCode } from "#cli/command.ts";
import { choiceFlag, commonFlags, textFlag, wholeSeconds } from "#cli/flags.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { restrictedPlugins } from "#npwg/attachment-policy.ts";
import { servingPartsMs } from "#serving/life.ts";
import { createLogger } from "#serving/logger.ts";

export const dockerCommand = command({
  name: "docker",
  summary: "run the network driver for Docker until it is stopped",
  description: `Lets docker network create -d plexus make networks of CNI plugins. Runs as root in the network and
mount namespaces of dockerd; see docs/user/docker.md.`,
  flags: {
    manifests: textFlag("DIR", "NetworkAttachmentDefinitions in YAML"),
    "attachment-policy": choiceFlag(["trusted", "restricted"], {
      help: "what networks may contain that are not files of --conf-dir",
      fallback: "trusted",
    }),
    "conf-dir": textFlag("DIR", "CNI configurations by name", defaultPaths.confDir),
    "bin-dir": textFlag(
      "DIR[:DIR]",
      "the directories of CNI plugins, as in CNI_PATH",
      defaultPaths.cniBinDir,
    ),
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
    "state-dir": textFlag(
      "DIR",
      "networks and endpoints",
      `${commonFlags.stateDir.fallback}/docker`,
    ),
    scope: choiceFlag(["local", "global"], {
      help: "global for a managed plugin of a swarm",
    }),
    "connectivity-scope": choiceFlag(["local", "global"], {
      help: "global if the networks reach other nodes",
    }),
    "sandbox-root": textFlag(
      "DIR",
      "where the host's /var/run/docker is mounted, in a managed plugin",
    ),
    "reconcile-seconds": textFlag("N", "how often to look for endpoints that dockerd forgot", "30"),
    "del-grace-seconds": textFlag("N", "how long a plugin that failed may fail to detach", "300"),
    "log-level": choiceFlag(["debug", "info", "warn", "error"], {
      help: "the least severe messages to log",
      fallback: "info",
    }),
  },
  stopMs: servingPartsMs,
  async run({ flags }, _output, stopping) {
    const cniPath = flags["bin-dir"];
    const [binDir = ""] = cniPath.split(":");
    const seconds = wholeSeconds("--reconcile-seconds", flags["reconcile-seconds"]);
    const graceSeconds = wholeSeconds("--del-grace-seconds", flags["del-grace-seconds"]);
    // The other commands do not load the engine.
    const { startDocker } = await import("#docker/start.ts");
    await using _driver = await startDocker({
      ...(flags.manifests !== "" && { manifests: flags.manifests }),
      ...(flags["attachment-policy"] === "restricted" && {
        policy: { rule: "--attachment-policy restricted", plugins: restrictedPlugins },
      }),
      pluginSocket: flags["plugin-socket"],
      callSocket: flags["call-socket"],
      stateDir: flags["state-dir"],
      confDir: flags["conf-dir"],
      sandboxRoot: flags["sandbox-root"],
      cniPath,
      shim: flags.shim || join(binDir, executableNames.shim),
      capabilities: { Scope: flags.scope, ConnectivityScope: flags["connectivity-scope"] },
      forgottenCheckMs: seconds * 1000,
      delGraceMs: graceSeconds * 1000,
      pid: process.pid,
      logger: createLogger(flags["log-level"]),
    });
    if (!stopping.aborted) await once(stopping, "abort");
    return ExitCode.Done;
  },
});
