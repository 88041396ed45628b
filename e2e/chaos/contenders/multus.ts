import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RestartableDaemon } from "../../support/daemon.ts";
import { startMultusDaemon } from "../../support/multus-daemon.ts";
import { confList, networks } from "../lab/topology.ts";
import {
  type Contender,
  type ContenderParts,
  runtimeConfig,
  runtimeEnvironment,
} from "./contender.ts";

/** Executables of Multus: MULTUS_THIN, or MULTUS_SHIM and MULTUS_DAEMON, name them. */
export const multusPaths = {
  thin: process.env.MULTUS_THIN,
  shim: process.env.MULTUS_SHIM,
  daemon: process.env.MULTUS_DAEMON,
};

/** Where client-go looks for a container's token; /run is the worker's own file system. */
const serviceAccount = "/run/secrets/kubernetes.io/serviceaccount";

/** The server takes any token, but Multus's daemon wants one. */
const token = "chaos";

/** Multus as one executable per call. */
export async function multusThin(parts: ContenderParts): Promise<Contender> {
  const { kubeconfig, cniDir } = await files(parts);
  const conf = { type: "multus", kubeconfig, cniDir, retryDeleteOnError: true };
  return { emptiesNetns: false, command: commandOf(multusPaths.thin, conf) };
}

/**
 * Multus with its daemon. The default network is not a file, as the daemon generates it: Multus 4.3.0
 * forgets the address ranges of a file's list before its DEL, in every run
 * (k8snetworkplumbingwg/multus-cni#1449).
 */
export async function multusThick(parts: ContenderParts): Promise<Contender> {
  const { root } = parts.place;
  const { cniDir, primary } = await files(parts);
  const socketDir = join(root, "run/multus");
  const variables = parts.api.serviceAccount(serviceAccount, token);
  const daemon = new RestartableDaemon(() =>
    startMultusDaemon({
      command: [multusPaths.daemon ?? ""],
      dir: join(root, "etc/multus"),
      primaryDir: join(primary, ".."),
      config: { socketDir, cniDir, retryDeleteOnError: true, logLevel: "verbose" },
      nodeName: "chaos",
      env: { TMPDIR: join(root, "tmp"), ...variables },
    }),
  );
  const conf = { type: "multus-shim", daemonSocketDir: socketDir };
  return { emptiesNetns: false, daemon, command: commandOf(multusPaths.shim, conf) };
}

/** What a runtime starts; `conf` has the configuration's own keys. */
function commandOf(program = "", conf: object): Contender["command"] {
  const usual = {
    cniVersion: "1.0.0",
    name: "multus-cni-network",
    delegates: [confList(networks[0])],
    capabilities: { portMappings: true },
    runtimeConfig,
  };
  return (operation, sandbox, { cniPath }) => ({
    program,
    stdin: JSON.stringify({ ...usual, ...conf, binDir: cniPath[0] }),
    env: runtimeEnvironment(operation, sandbox, cniPath),
  });
}

async function files({ place, api }: ContenderParts): Promise<{
  readonly kubeconfig: string;
  /** On the disk that faults fill up, as Plexus's records are. */
  readonly cniDir: string;
  /** The default network's configuration. */
  readonly primary: string;
}> {
  const kubeconfig = await api.kubeconfig({ token });
  const primary = join(place.root, "etc/primary/10-default.conflist");
  mkdirSync(join(primary, ".."));
  writeFileSync(primary, JSON.stringify(confList(networks[0])));
  return { kubeconfig, primary, cniDir: join(place.disk, "multus") };
}
