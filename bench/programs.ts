import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { cniVersion, type Delegates, network, singleConf } from "./delegates.ts";
import { type FloorId, floorSocket, standaloneFloor } from "./peers/floor.ts";
import type { Multus } from "./peers/multus.ts";
import type { Build, Place } from "./place.ts";

/** What a contender executes, and with what. */
export interface Program {
  readonly path: string;
  /** Added to what a runtime sets. */
  readonly env?: Readonly<Record<string, string>>;
  stdin(set: Delegates): object;
}

/** The shim, with plexusd at its socket. */
export function plexus({ shim, socket, state }: Omit<Build, "id" | "name" | "plexusd">): Program {
  const env = { PLEXUS_SOCKET: socket, PLEXUS_STATE_DIR: state, PLEXUS_STANDALONE: "" };
  return { path: shim, env, stdin: plexusConf };
}

/** The same shim, with an engine that has its orders ready (peers/floor-engine.ts). */
export function floor({ dir, builds: [{ shim }] }: Place, id: FloorId): Program {
  return plexus({ shim, socket: floorSocket(dir, id), state: join(dir, `${id}-state`) });
}

export type StandaloneId =
  | "floor-standalone"
  | "plexus-standalone"
  | "plexus-standalone-further"
  | "plexus-standalone-other";

/**
 * The shim without a daemon: it starts plexus-standalone, or the floor of it. Further calls need a
 * directory beside plexusd's socket, and only those have one.
 */
export function standalone(place: Place, id: StandaloneId): Program {
  const kubeconfig = place.api.kubeconfig(id);
  const programs = {
    "floor-standalone": standaloneFloor(place),
    "plexus-standalone": place.standalone,
    "plexus-standalone-further": place.standalone,
    "plexus-standalone-other": join(place.otherBuild ?? "", "plexus-standalone"),
  };
  const dir = id === "plexus-standalone-further" ? join(place.dir, "no-daemon") : "/proc/no-daemon";
  return {
    path: place.builds[0].shim,
    env: {
      PLEXUS_SOCKET: join(dir, "plexus.sock"),
      PLEXUS_STATE_DIR: join(place.dir, `${id}-state`),
      PLEXUS_STANDALONE: programs[id],
    },
    stdin: (set) => ({ ...plexusConf(set), kubeconfig }),
  };
}

function plexusConf(set: Delegates): object {
  return { cniVersion, name: "plexus", type: "plexus", delegates: [network(set, 0)] };
}

/** Multus as one executable that asks the API itself. */
export function multusThin(place: Place, multus: Multus): Program {
  const kubeconfig = place.api.kubeconfig("multus");
  const common = { cniVersion, name: "multus-cni-network", type: "multus", logLevel: "error" };
  const cniDir = join(place.dir, "multus-thin");
  return {
    path: multus.thin,
    stdin: (set) => ({ ...common, kubeconfig, cniDir, delegates: [network(set, 0)] }),
  };
}

/**
 * The configuration that its daemon generates, with one file per set for the default network: a single
 * configuration, as Multus 4.3.0 forgets the address ranges of a list before its DEL
 * (k8snetworkplumbingwg/multus-cni#1449).
 */
export function multusThick(place: Place, multus: Multus): Program {
  const common = { cniVersion, name: "multus-cni-network", type: "multus-shim", logLevel: "error" };
  const { primaries, sockets: daemonSocketDir } = place.thick;
  return {
    path: multus.shim,
    stdin(set) {
      const clusterNetwork = join(primaries, `${set.name}.conf`);
      writeFileSync(clusterNetwork, JSON.stringify(singleConf(set, 0)));
      return { ...common, clusterNetwork, daemonSocketDir, binDir: place.plugins };
    },
  };
}
