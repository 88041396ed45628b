import { asObject, type JsonObject } from "../json.ts";
import { run } from "../runtime/command.ts";
import { waitUntil } from "../runtime/wait.ts";
import type { Values } from "../template.ts";
import type { Cluster } from "./cluster.ts";

/** A cluster of the user's, through kubectl, with all kinds of credentials that kubectl knows. */
export class RealCluster implements Cluster {
  readonly #kubeconfig: string;

  private constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  /** @throws Error if the server cannot be reached or does not have the definitions' CRD */
  static async open(kubeconfig: string): Promise<RealCluster> {
    const cluster = new RealCluster(kubeconfig);
    await cluster.#kubectl(["get", "crd", "network-attachment-definitions.k8s.cni.cncf.io"]);
    return cluster;
  }

  get values(): Values {
    return { kubeconfig: this.#kubeconfig };
  }

  async createNamespace(name: string): Promise<void> {
    await this.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
    await waitUntil(`namespace ${name} has its service account`, async () => {
      const account = ["get", "serviceaccount", "default", "-n", name, "--ignore-not-found"];
      return (await this.#kubectl([...account, "-o", "name"])) !== "";
    });
  }

  async deleteNamespace(name: string): Promise<void> {
    await this.#kubectl(["delete", "namespace", name, "--wait=false", "--ignore-not-found"]);
  }

  async apply(object: JsonObject): Promise<JsonObject> {
    return JSON.parse(await this.#kubectl(["apply", "-f", "-", "-o", "json"], object));
  }

  async getPod(namespace: string, name: string): Promise<JsonObject | undefined> {
    const pod = ["get", "pod", name, "-n", namespace, "--ignore-not-found", "-o", "json"];
    const text = await this.#kubectl(pod);
    return text === "" ? undefined : asObject(JSON.parse(text));
  }

  async delete(object: JsonObject): Promise<void> {
    const flags = ["--ignore-not-found", "--grace-period=0", "--force", "--wait=false"];
    await this.#kubectl(["delete", "-f", "-", ...flags], object);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async #kubectl(args: readonly string[], object?: JsonObject): Promise<string> {
    const input = object === undefined ? "" : JSON.stringify(object);
    return await run(["kubectl", "--kubeconfig", this.#kubeconfig, ...args], { input });
  }
}
