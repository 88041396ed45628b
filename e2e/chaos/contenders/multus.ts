import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RestartableDaemon } from "../../support/daemon.ts";
import { startMultusDaemon } from "../../support/multus-daemon.ts";
import type { Fault } from "../fault.ts";
import { confList, networks } from "../lab/topology.ts";
import {
  type CallOptions,
  type Contender,
  type ContenderParts,
  runtimeConfig,
  runtimeEnvironment,
  type Sandbox,
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

/** What has no counterpart in Multus cannot happen to it; thin Multus has no daemon either. */
export function thinCanHave(fault: Fault): boolean {
  return fault.target !== "plexusd" && thickCanHave(fault);
}

/** See {@link thinCanHave}. */
export function thickCanHave({ target, action }: Fault): boolean {
  return target !== "standalone" && action !== "previous-release";
}

/** Multus as one executable per call. */
export async function multusThin(parts: ContenderParts): Promise<Contender> {
  const { kubeconfig, cniDir } = await files(parts);
  const conf = {
    cniVersion: "1.0.0",
    name: "multus-cni-network",
    type: "multus",
    kubeconfig,
    cniDir,
    delegates: [confList(networks[0])],
    capabilities: { portMappings: true },
    retryDeleteOnError: true,
    runtimeConfig,
  };
  return {
    name: "Multus thin",
    emptiesNetns: false,
    command: (operation, sandbox, options) => ({
      program: multusPaths.thin ?? "",
      stdin: JSON.stringify({ ...conf, binDir: options.cniPath[0] }),
      env: runtimeEnvironment(operation, sandbox, options.cniPath),
    }),
  };
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
      program: multusPaths.daemon ?? "",
      dir: join(root, "etc/multus"),
      primaryDir: join(primary, ".."),
      config: { socketDir, cniDir, retryDeleteOnError: true, logLevel: "verbose" },
      nodeName: "chaos",
      env: { TMPDIR: join(root, "tmp"), ...variables },
    }),
  );
  const conf = (options: CallOptions): object => ({
    cniVersion: "1.0.0",
    name: "multus-cni-network",
    type: "multus-shim",
    daemonSocketDir: socketDir,
    delegates: [confList(networks[0])],
    binDir: options.cniPath[0],
    capabilities: { portMappings: true },
    runtimeConfig,
  });
  return {
    name: "Multus thick",
    emptiesNetns: false,
    daemon,
    command: (operation, sandbox: Sandbox, options) => ({
      program: multusPaths.shim ?? "",
      stdin: JSON.stringify(conf(options)),
      env: runtimeEnvironment(operation, sandbox, options.cniPath),
    }),
  };
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
