import { Kubectl } from "../../kubernetes/kubectl.ts";
import type { Command } from "../../machine/run.ts";
import { podImage } from "./images.ts";
import { namespaceObject } from "./objects.ts";
import type { Target } from "./target.ts";

interface NodeList {
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
}

const shellNamespace = "plexus-e2e-node";
const shell = "node-shell";

/** The cluster that KUBECONFIG names. PLEXUS_E2E_NODE chooses the node. */
export class GivenTarget extends Kubectl implements Target {
  readonly nodeName: string;

  private constructor(nodeName: string) {
    super(["kubectl"]);
    this.nodeName = nodeName;
  }

  static async start(): Promise<GivenTarget> {
    const { items } = await new Kubectl(["kubectl"]).get<NodeList>("nodes");
    const nodeName = process.env.PLEXUS_E2E_NODE ?? items[0]?.metadata.name;
    if (nodeName === undefined) throw new Error("the given cluster has no node");
    const target = new GivenTarget(nodeName);
    await target.#startShell();
    return target;
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
    await this.apply(namespaceObject(shellNamespace, labels));
    const securityContext = { privileged: true };
    const command = ["sleep", "86400"];
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
        containers: [{ name: "main", image: podImage, command, securityContext }],
      },
    });
    const ready = ["--for=condition=Ready", `pod/${shell}`, "--timeout=120s"];
    await this.kubectl("wait", `--namespace=${shellNamespace}`, ...ready);
  }
}
