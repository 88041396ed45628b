import { cniEnvironment } from "../e2e/support/node/cni-environment.ts";
import type { Delegates } from "./delegates.ts";
import { namespace, podName, podUid } from "./objects.ts";

/** How many network namespaces of pods there are. */
export const namespaces = 100;

/** One call for one pod. */
export interface Call {
  readonly command: "ADD" | "DEL";
  readonly set: Delegates;
  /** The pod's number; its namespace is that of {@link netnsName}, and round again from the first when there are more pods. */
  readonly sandbox: number;
  /** Has Plexus print its phases on stderr. */
  readonly trace?: boolean;
  /** Where the shim is to connect, if not to the contender's engine. */
  readonly socket?: string;
  /** Where inspect.c is to report the memory of each process of the call. */
  readonly inspect?: string;
}

/** The container's ID: each contender has its own sandbox for a pod. */
function containerId(contender: string, { set, sandbox }: Call): string {
  return `${contender}-${podName(set, sandbox)}`;
}

/** The name of a pod's namespace: a UUID, as that of a container runtime. bench/place.ts makes them. */
export function netnsName(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

/** The CNI variables of a call: as the runtime sets them, or as they are for the call's nth plugin. */
export function cniVariables(
  contender: string,
  call: Call,
  { plugins, nth = 0 }: { plugins: string; nth?: number },
): Record<string, string> {
  const name = podName(call.set, call.sandbox);
  const sandbox = {
    containerId: containerId(contender, call),
    netns: `/run/netns/${netnsName(call.sandbox % namespaces)}`,
    ifName: nth === 0 ? "eth0" : `net${nth}`,
    pod: { namespace, name, uid: podUid(name) },
  };
  return cniEnvironment({ command: call.command, cniPath: plugins, sandbox });
}
