import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import type { RestartableDaemon } from "../../support/daemon.ts";
import { cniEnvironment } from "../../support/node/cni-environment.ts";
import type { Operation } from "../fault.ts";
import type { Place } from "../lab/place.ts";
import type { Command, RunningCall } from "../lab/runtime-call.ts";

/** One pod of a run. */
export interface Sandbox {
  readonly podName: string;
  readonly podUid: string;
  readonly containerId: string;
  /** CNI_NETNS. */
  readonly netns: string;
}

/** How the scenario's faults change a call beyond what they do to the node. */
interface CallOptions {
  readonly cniPath: readonly string[];
  readonly previousRelease: boolean;
  readonly standalone: boolean;
}

/** What a contender is built from. */
export interface ContenderParts {
  readonly place: Place;
  readonly api: FakeApiServer;
  /** Plexus's shim of another release. */
  readonly previousShim: string;
}

/** A meta-plugin in the matrix. */
export interface Contender {
  /** Whether its DEL is held to leave nothing in the network namespace; if not, what is there goes with it unseen. */
  readonly emptiesNetns: boolean;
  /** Its daemon, where it has one. */
  readonly daemon?: RestartableDaemon;
  /** What attaches networks to running pods, where something does. Only runs with an edit start it. */
  readonly agent?: RestartableDaemon;
  /** The process of one call that does what a daemon does otherwise; undefined while there is none. */
  engineOf?(call: RunningCall): Promise<number | undefined>;
  /** Whether the executable has handed the call to its engine; undefined when that cannot be seen. */
  hasRequested?(sandbox: Sandbox): boolean;
  command(operation: Operation, sandbox: Sandbox, options: CallOptions): Command;
}

/** What a runtime sets for any meta-plugin. */
export function runtimeEnvironment(
  operation: Operation,
  sandbox: Sandbox,
  cniPath: readonly string[],
): Record<string, string> {
  const { podName, podUid, containerId, netns } = sandbox;
  const pod = { namespace: "default", name: podName, uid: podUid };
  const variables = { containerId, netns, pod };
  return {
    PATH: process.env.PATH ?? "",
    ...cniEnvironment({ command: operation, cniPath: cniPath.join(":"), sandbox: variables }),
  };
}

/** What the runtime asks of the default network. */
export const runtimeConfig = {
  portMappings: [{ hostPort: 18080, containerPort: 80, protocol: "tcp" }],
};
