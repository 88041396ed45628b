/** The pod that a runtime names in CNI_ARGS. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string | undefined;
}

/** A sandbox that a call is for. */
interface Sandbox {
  readonly containerId: string;
  /** Path of the network namespace; empty when there is none any more. */
  readonly netns: string;
  /** @default eth0 */
  readonly ifName?: string | undefined;
  /** Not given for a sandbox that is no pod's. */
  readonly pod?: PodIdentity | undefined;
}

/** The CNI variables of one call. */
export interface CniVariables {
  readonly command: string;
  /** Directories of plugins, separated by colons. */
  readonly cniPath: string;
  /** Not given for the commands that are for none: VERSION, STATUS and GC. */
  readonly sandbox?: Sandbox | undefined;
  /** More CNI_ARGS after the pod's, e.g. `IP=10.0.0.5`. */
  readonly extraArgs?: string | undefined;
}

/** The environment of a CNI call as containerd and CRI-O set it. */
export function cniEnvironment(variables: CniVariables): Record<string, string> {
  const { command, cniPath, sandbox, extraArgs } = variables;
  if (sandbox === undefined) return { CNI_COMMAND: command, CNI_PATH: cniPath };
  const args = ["IgnoreUnknown=1", ...podArgs(sandbox)];
  if (extraArgs !== undefined) args.push(extraArgs);
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: sandbox.containerId,
    CNI_NETNS: sandbox.netns,
    CNI_IFNAME: sandbox.ifName ?? "eth0",
    CNI_PATH: cniPath,
    CNI_ARGS: args.join(";"),
  };
}

function podArgs({ containerId, pod }: Sandbox): string[] {
  if (pod === undefined) return [];
  return [
    `K8S_POD_NAMESPACE=${pod.namespace}`,
    `K8S_POD_NAME=${pod.name}`,
    `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
    ...(pod.uid === undefined ? [] : [`K8S_POD_UID=${pod.uid}`]),
  ];
}
