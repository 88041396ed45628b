// SPDX-License-Identifier: Apache-2.0

import { type Command, type RunResult, run, tryRun } from "../../machine/run.ts";
import { defaultPlexusImage } from "./plexus-image.ts";
import type { Target } from "./target.ts";

interface NodeObject {
  readonly metadata: { readonly name: string };
}

const shellNamespace = "plexus-e2e-node";
const shell = "node-shell";

/**
 * The cluster that KUBECONFIG names. It must know the images already, or be able to pull them:
 * PLEXUS_E2E_IMAGE (Plexus) and PLEXUS_E2E_POD_IMAGE (busybox). PLEXUS_E2E_NODE chooses the node.
 */
export class GivenTarget implements Target {
  readonly plexusImage = process.env.PLEXUS_E2E_IMAGE ?? defaultPlexusImage;
  readonly podImage: string;
  readonly nodeName: string;

  private constructor(nodeName: string, podImage: string) {
    this.nodeName = nodeName;
    this.podImage = podImage;
  }

  static async start(): Promise<GivenTarget> {
    const { items } = JSON.parse(await run(["kubectl", "get", "nodes", "--output=json"]));
    const [first] = items as NodeObject[];
    const nodeName = process.env.PLEXUS_E2E_NODE ?? first?.metadata.name;
    if (nodeName === undefined) {
      throw new Error("the given cluster has no node");
    }
    const podImage = process.env.PLEXUS_E2E_POD_IMAGE ?? "docker.io/library/busybox:1.37";
    const target = new GivenTarget(nodeName, podImage);
    await target.#startShell();
    return target;
  }

  async kubectl(...args: string[]): Promise<string> {
    return run(["kubectl", ...args]);
  }

  async tryKubectl(...args: string[]): Promise<RunResult> {
    return tryRun(["kubectl", ...args]);
  }

  async apply(manifest: string | object): Promise<string> {
    const input = typeof manifest === "string" ? manifest : JSON.stringify(manifest);
    return run(["kubectl", "apply", "--filename=-"], { input });
  }

  async inNode(command: Command): Promise<string> {
    const enter = ["nsenter", "-t", "1", "-m", "-n", "-p", "-u", "-i", "--", ...command];
    return this.kubectl("exec", `--namespace=${shellNamespace}`, shell, "--", ...enter);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kubectl("delete", "namespace", shellNamespace, "--timeout=120s");
  }

  /** A privileged pod in the host's namespaces, whose nsenter reaches the node's first process. */
  async #startShell(): Promise<void> {
    const labels = { "pod-security.kubernetes.io/enforce": "privileged" };
    await this.apply({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: shellNamespace, labels },
    });
    const container = {
      name: "main",
      image: this.podImage,
      command: ["sleep", "86400"],
      securityContext: { privileged: true },
    };
    await this.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: shell, namespace: shellNamespace },
      spec: {
        nodeName: this.nodeName,
        hostNetwork: true,
        hostPID: true,
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 0,
        tolerations: [{ operator: "Exists" }],
        containers: [container],
      },
    });
    const ready = ["--for=condition=Ready", `pod/${shell}`, "--timeout=120s"];
    await this.kubectl("wait", `--namespace=${shellNamespace}`, ...ready);
  }
}
