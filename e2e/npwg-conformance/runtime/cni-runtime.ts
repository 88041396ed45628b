import type { Implementation } from "../implementation.ts";
import { asObject, type JsonObject, parseJson } from "../json.ts";
import { execute, type Outcome } from "./command.ts";

/** A pod's sandbox, as the container runtime names it in the calls. */
export interface Sandbox {
  readonly containerId: string;
  /** Path of the network namespace; empty if it is gone. */
  readonly netns: string;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string };
}

/** A call of the implementation's CNI executable. */
export interface Call {
  readonly command: "ADD" | "DEL" | "CHECK" | "VERSION";
  readonly sandbox: Sandbox;
  /** Replaces keys of the implementation's configuration. */
  readonly configuration?: JsonObject | undefined;
}

/** What the executable answered. */
export interface Reply extends Outcome {
  readonly result: JsonObject;
}

/** Longer than any implementation may wait, and shorter than a requirement's time. */
const callTimeoutMs = 50_000;

/** Calls the CNI executable as containerd does: with the pod in CNI_ARGS and the configuration on stdin. */
export class CniRuntime {
  readonly #implementation: Implementation;
  readonly #cniPath: string;

  constructor(implementation: Implementation, cniPath: string) {
    this.#implementation = implementation;
    this.#cniPath = cniPath;
  }

  /** @throws Error only if the executable cannot be started */
  async call({ command, sandbox, configuration }: Call): Promise<Reply> {
    const { plugin, environment, configuration: own } = this.#implementation;
    const { namespace, name, uid } = sandbox.pod;
    const args = [
      "IgnoreUnknown=1",
      `K8S_POD_NAMESPACE=${namespace}`,
      `K8S_POD_NAME=${name}`,
      `K8S_POD_INFRA_CONTAINER_ID=${sandbox.containerId}`,
      `K8S_POD_UID=${uid}`,
    ];
    const env = {
      PATH: process.env.PATH ?? "",
      ...environment,
      CNI_COMMAND: command,
      CNI_CONTAINERID: sandbox.containerId,
      CNI_NETNS: sandbox.netns,
      CNI_IFNAME: "eth0",
      CNI_PATH: this.#cniPath,
      CNI_ARGS: args.join(";"),
    };
    const input = JSON.stringify({ ...own, ...configuration });
    const outcome = await execute([plugin], { env, input, timeoutMs: callTimeoutMs });
    return { ...outcome, result: asObject(parseJson(outcome.stdout)) };
  }
}

/** The error of a failed call: its code and message. */
export function errorOf({ exitCode, result, stdout, stderr }: Reply): string {
  if (typeof result.msg !== "string") return `exit ${exitCode}: ${stdout}${stderr}`;
  const details = result.details === undefined ? "" : `; ${result.details}`;
  return `code ${result.code}: ${result.msg}${details}`;
}
