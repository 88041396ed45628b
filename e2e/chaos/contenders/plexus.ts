import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { Daemon } from "../daemon.ts";
import { confList, networks } from "../topology.ts";
import {
  type Contender,
  type ContenderParts,
  runtimeConfig,
  runtimeEnvironment,
} from "./contender.ts";

/** Waits are cut so that a run that needs one stays short; what they guard stays in its order. */
const waits = {
  PLEXUS_WAIT_MS: "500",
  PLEXUS_LOCK_MS: "1500",
  PLEXUS_SILENCE_MS: "700",
  PLEXUS_STRAGGLER_MS: "1500",
  PLEXUS_REPLAY_MS: "4000",
};

const daemonConfig = {
  delegateTimeoutMs: 1000,
  apiTimeoutMs: 500,
  statusWaitMs: 200,
  primary: { settleMs: 0 },
};

/** Plexus, daemon and shim of this build. */
export function plexus({ place, api, previousShim }: ContenderParts): Contender {
  const [config, kubeconfig, socket] = ["etc/config.yaml", "etc/kubeconfig", "run/plexus.sock"].map(
    (name) => join(place.root, name),
  ) as [string, string, string];
  writeFileSync(config, JSON.stringify(daemonConfig));
  writeFileSync(kubeconfig, JSON.stringify(api.kubeconfig()));
  const files = ["--config", config, "--kubeconfig", kubeconfig, "--socket", socket];
  const rest = ["--state-dir", place.stateDir, "--cni-conf-dir", join(place.root, "etc")];
  const flags = [...files, ...rest, "--http", "off", "--node", "chaos"];
  const daemon = new Daemon({
    command: [nodeBinary(), distPath("plexusd.js"), ...flags],
    env: { PATH: process.env.PATH ?? "", TMPDIR: join(place.root, "tmp") },
    ready: { log: "plexusd serves" },
  });
  const conf = {
    cniVersion: "1.0.0",
    name: "plexus",
    type: "plexus",
    kubeconfig,
    delegates: [confList(networks[0])],
    runtimeConfig,
  };
  return {
    name: "Plexus",
    daemon,
    hasRequested: ({ containerId }) => existsSync(join(place.stateDir, `${containerId}.lock`)),
    command: (operation, sandbox, options) => ({
      program: options.previousRelease ? previousShim : distPath("plexus"),
      stdin: JSON.stringify(conf),
      env: {
        ...runtimeEnvironment(operation, sandbox, options.cniPath),
        ...waits,
        TMPDIR: join(place.root, "tmp"),
        NODE_NAME: "chaos",
        PLEXUS_CONFIG: config,
        PLEXUS_SOCKET: socket,
        PLEXUS_STATE_DIR: place.stateDir,
        PLEXUS_STANDALONE: options.standalone ? distPath("plexus-standalone") : "",
      },
    }),
  };
}
