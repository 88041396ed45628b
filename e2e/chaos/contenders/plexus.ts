import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon, RestartableDaemon } from "../../support/daemon.ts";
import { flavour } from "../../support/flavour.ts";
import { distPath } from "../../support/paths.ts";
import {
  shimEnvironment,
  smallMemory,
  standaloneEnvironment,
  standaloneOf,
  startPlexusd,
} from "../../support/plexusd.ts";
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

/** Plexus: the shim of this build, with its daemon or, in the other flavour, with plexus-standalone. */
export async function plexus(
  { place, api, previousShim }: ContenderParts,
  options: PlexusOptions = {},
): Promise<Contender> {
  const {
    http = "false",
    defaultNetwork = confList(networks[0]),
    delegateTimeoutMs = 2000,
  } = options;
  const config = join(place.root, "etc/config.yaml");
  const socket = join(place.root, "run/plexus.sock");
  const kubeconfig = await api.kubeconfig({ token: "chaos" });
  const timeouts = {
    delegateTimeoutMs,
    apiTimeoutMs: 500,
    delGraceMs: 1000,
    // The faults meet the write of the status in each run only if it is part of the call.
    publishStatus: options.hurried === false ? "afterReply" : "beforeReply",
  };
  const keys = { ...timeouts, hotPlug: true };
  writeFileSync(config, JSON.stringify(keys));
  const paths = { socket, stateDir: place.stateDir };
  const files = ["--config", config, "--kubeconfig", kubeconfig];
  const rest = ["--cni-conf-dir", join(place.root, "etc"), "--http", http, "--node", "chaos"];
  const variables = { PATH: process.env.PATH ?? "", TMPDIR: join(place.root, "tmp") };
  const daemon = new RestartableDaemon(() =>
    startPlexusd({
      ...paths,
      logFile: join(place.root, "etc/plexusd.log"),
      nodeFlags: smallMemory.flags,
      flags: [...files, ...rest],
      env: { ...smallMemory.env, ...variables },
    }),
  );
  const agent = new RestartableDaemon(async () =>
    Daemon.start({
      name: "plexus agent",
      command: [distPath("plexus"), "agent", "--attach"],
      logFile: join(place.root, "etc/agent.log"),
      env: {
        ...shimEnvironment(paths),
        ...(options.hurried === false ? {} : waits),
        ...variables,
        CNI_PATH: `${place.binDir}:${place.movedDir}`,
      },
    }),
  );
  const conf = {
    cniVersion: "1.0.0",
    name: "plexus",
    type: "plexus",
    kubeconfig,
    delegates: [defaultNetwork],
    runtimeConfig,
  };
  return {
    emptiesNetns: true,
    ...(flavour === "daemon"
      ? { daemon, agent }
      : { engineOf: ({ pid }) => standaloneOf(pid, socket) }),
    hasRequested: ({ containerId }) => existsSync(join(place.stateDir, `${containerId}.lock`)),
    command: (operation, sandbox, call) => ({
      program: call.previousRelease ? previousShim : distPath("plexus"),
      stdin: JSON.stringify(conf),
      env: {
        ...runtimeEnvironment(operation, sandbox, call.cniPath),
        ...(options.hurried === false ? {} : waits),
        ...variables,
        ...(call.standalone || flavour === "standalone"
          ? standaloneEnvironment(paths)
          : shimEnvironment(paths)),
        NODE_NAME: "chaos",
        PLEXUS_CONFIG: config,
      },
    }),
  };
}
