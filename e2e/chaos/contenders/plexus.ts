import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { smallMemory } from "../../support/plexusd.ts";
import { Daemon } from "../lab/daemon.ts";
import { confList, networks } from "../lab/topology.ts";
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

/** What a run may have otherwise. */
export interface PlexusOptions {
  /** Where metrics are served. @default nowhere */
  readonly http?: string;
  /** A configuration list. @default the topology's */
  readonly defaultNetwork?: object;
  /** @default 2000 */
  readonly delegateTimeoutMs?: number;
  /** Whether the shim's waits are cut. @default true */
  readonly hurried?: boolean;
}

/** Plexus, daemon and shim of this build. */
export function plexus(
  { place, api, previousShim }: ContenderParts,
  options: PlexusOptions = {},
): Contender {
  const {
    http = "off",
    defaultNetwork = confList(networks[0]),
    delegateTimeoutMs = 2000,
  } = options;
  const [config, kubeconfig, socket] = ["etc/config.yaml", "etc/kubeconfig", "run/plexus.sock"].map(
    (name) => join(place.root, name),
  ) as [string, string, string];
  const timeouts = {
    delegateTimeoutMs,
    apiTimeoutMs: 500,
    statusWaitMs: 200,
    missingPluginGraceMs: 1000,
  };
  writeFileSync(config, JSON.stringify({ ...timeouts, primary: { settleMs: 0 } }));
  writeFileSync(kubeconfig, JSON.stringify(api.kubeconfig()));
  const files = ["--config", config, "--kubeconfig", kubeconfig, "--socket", socket];
  const rest = ["--state-dir", place.stateDir, "--cni-conf-dir", join(place.root, "etc")];
  const flags = [...files, ...rest, "--http", http, "--node", "chaos"];
  const daemon = new Daemon({
    command: [nodeBinary(), ...smallMemory.flags, distPath("plexusd.js"), ...flags],
    env: { ...smallMemory.env, PATH: process.env.PATH ?? "", TMPDIR: join(place.root, "tmp") },
    ready: { log: "plexusd serves" },
  });
  const conf = {
    cniVersion: "1.0.0",
    name: "plexus",
    type: "plexus",
    kubeconfig,
    delegates: [defaultNetwork],
    runtimeConfig,
  };
  return {
    name: "Plexus",
    emptiesNetns: true,
    daemon,
    hasRequested: ({ containerId }) => existsSync(join(place.stateDir, `${containerId}.lock`)),
    command: (operation, sandbox, call) => ({
      program: call.previousRelease ? previousShim : distPath("plexus"),
      stdin: JSON.stringify(conf),
      env: {
        ...runtimeEnvironment(operation, sandbox, call.cniPath),
        ...(options.hurried === false ? {} : waits),
        TMPDIR: join(place.root, "tmp"),
        NODE_NAME: "chaos",
        PLEXUS_CONFIG: config,
        PLEXUS_SOCKET: socket,
        PLEXUS_STATE_DIR: place.stateDir,
        PLEXUS_STANDALONE: call.standalone ? distPath("plexus-standalone") : "",
      },
    }),
  };
}
