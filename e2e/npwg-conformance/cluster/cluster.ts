import type { JsonObject } from "../json.ts";
import type { Values } from "../template.ts";

/** An API server with pods and NetworkAttachmentDefinitions. */
export interface Cluster extends AsyncDisposable {
  /** What an implementation finds the API server with: `kubeconfig` and more. */
  readonly values: Values;
  /** Creates a namespace in which pods can be created. */
  createNamespace(name: string): Promise<void>;
  /** Deletes a namespace with everything in it. */
  deleteNamespace(name: string): Promise<void>;
  /** Creates or updates an object; returns it as the server has it. */
  apply(object: JsonObject): Promise<JsonObject>;
  /** Reads a pod; undefined if there is none. */
  getPod(namespace: string, name: string): Promise<JsonObject | undefined>;
  /** Deletes an object without a grace period. */
  delete(object: JsonObject): Promise<void>;
}

/** The node of the pods. It does not exist in a real cluster, so that no kubelet starts them. */
export const nodeName = "npwg-conformance";

export const nadApiVersion = "k8s.cni.cncf.io/v1";
