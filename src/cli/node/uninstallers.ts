import { asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";

const timeoutMs = 10_000;
/** Pods per LIST: a complete one may have more than 15 KB, and a response may have 16 MiB. */
const pageSize = 250;
const daemon = "plexus";
const uninstaller = "plexus-uninstall";

/** The flag with which an uninstaller only says whether it could hand its node back. */
const checkFlag = "--check";

/** How far the uninstallers of all nodes are. */
export interface Progress {
  /** Every node has its uninstaller, and each one has succeeded. */
  readonly isDone: boolean;
  /** How many nodes there are; 0 while that is not known. */
  readonly nodes: number;
  /** On how many of them the uninstaller has succeeded. */
  readonly done: number;
  /** Nodes without an answer. */
  readonly waiting: readonly string[];
  /** One line for each node whose uninstaller failed. */
  readonly problems: readonly string[];
}

/** The DaemonSets of Plexus and its uninstaller, in the namespace of both. */
export class Uninstallers {
  readonly #api: JsonApi;
  readonly #namespace: string;

  constructor(api: JsonApi, namespace: string) {
    this.#api = api;
    this.#namespace = namespace;
  }

  /** @throws ApiError */
  async progress(): Promise<Progress> {
    const { metadata, status } = fieldsOf(await this.#api.json(this.#get(uninstaller)));
    const isObserved = status.observedGeneration === metadata.generation;
    const wanted = isObserved ? Number(status.desiredNumberScheduled) : undefined;
    const all = await Array.fromAsync(this.#pods("uninstall", pageSize));
    const pods = all.filter(({ owner, isEnding }) => owner === metadata.uid && !isEnding);
    const unready = pods.filter(({ isReady }) => !isReady);
    const open = unready.filter(({ failure }) => failure === undefined);
    const isCurrent = (status.updatedNumberScheduled ?? 0) === wanted && pods.length === wanted;
    return {
      isDone: isCurrent && unready.length === 0,
      nodes: wanted ?? 0,
      done: pods.length - unready.length,
      waiting: [
        ...open.map(({ node }) => node),
        ...(wanted === pods.length ? [] : ["a node without a pod"]),
      ],
      problems: unready.flatMap(({ node, failure }) =>
        failure === undefined ? [] : `${node}: ${failure}`,
      ),
    };
  }

  /** Deletes plexusd's DaemonSet, unless it is gone. @throws ApiError */
  async deleteDaemon(): Promise<void> {
    const request = { ...this.#get(daemon), method: "DELETE" as const };
    await this.#api.json(request).catch((error: unknown) => {
      if (!asApiError(error).isNotFound) throw error;
    });
  }

  /** Whether a pod of plexusd is left. @throws ApiError */
  async hasDaemonPods(): Promise<boolean> {
    const { done } = await this.#pods("node", 1).next();
    return done !== true;
  }

  /** Replaces the checks by uninstallations. @throws ApiError */
  async startUninstalling(): Promise<void> {
    const path = "/spec/template/spec/initContainers/0/command/3";
    const body = [
      { op: "test", path, value: checkFlag },
      { op: "remove", path },
    ];
    const contentType = "application/json-patch+json";
    await this.#api.json({ ...this.#get(uninstaller), method: "PATCH", contentType, body });
  }

  #get(name: string): { path: string; timeoutMs: number } {
    return { path: apiPaths.daemonSet({ namespace: this.#namespace, name }), timeoutMs };
  }

  /** Reads as many pods at a time as `limit`. */
  async *#pods(component: string, limit: number): AsyncGenerator<UninstallerPod> {
    const labelSelector = `app.kubernetes.io/name=plexus,app.kubernetes.io/component=${component}`;
    const path = apiPaths.podsOf(this.#namespace);
    let next: string | undefined;
    do {
      const query = { labelSelector, limit, continue: next };
      const page = objectOf(await this.#api.json({ path, query, timeoutMs }));
      yield* objectsOf(page.items).map(podOf);
      const { continue: token } = objectOf(page.metadata);
      next = typeof token === "string" && token !== "" ? token : undefined;
    } while (next !== undefined);
  }
}

type UninstallerPod = ReturnType<typeof podOf>;

function podOf(object: JsonObject) {
  const { metadata, spec, status } = fieldsOf(object);
  const owners = objectsOf(metadata.ownerReferences);
  const conditions = objectsOf(status.conditions);
  const [init] = objectsOf(status.initContainerStatuses);
  const { state, lastState } = objectOf(init);
  const ends = [state, lastState].map((each) => objectOf(objectOf(each).terminated));
  const failure = ends.find(({ exitCode }) => exitCode !== undefined && exitCode !== 0)?.message;
  return {
    node: String(spec.nodeName ?? "a node"),
    /** The UID of its DaemonSet. */
    owner: owners.find((each) => each.controller === true)?.uid,
    isEnding: metadata.deletionTimestamp !== undefined,
    isReady: conditions.some(({ type, status: is }) => type === "Ready" && is === "True"),
    /** What its init container printed when it failed last. */
    failure: typeof failure === "string" ? failure.trim().replaceAll("\n", "; ") : undefined,
  };
}

function fieldsOf(object: Json): Record<"metadata" | "spec" | "status", JsonObject> {
  const { metadata, spec, status } = objectOf(object);
  return { metadata: objectOf(metadata), spec: objectOf(spec), status: objectOf(status) };
}
