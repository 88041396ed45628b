import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { metadataListOnly, metadataOnly } from "#kube/objects.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";

interface OwnDaemonSetOptions {
  readonly client: ApiClient;
  /** The pod that plexusd runs in. */
  readonly pod: ObjectName;
  /** Called with the number of nodes that shall run plexusd. */
  readonly onNodes?: (count: number) => void;
  readonly logger: Logger;
  /** How long to wait for the sign that the service account is deleted too. */
  readonly timings?: { readonly retryMs: number; readonly atMostMs: number };
}

/** Who deletes Plexus deletes the permissions and the service account within a moment. */
const defaultTimings = { retryMs: 500, atMostMs: 5000 };
const timeoutMs = 5000;

/** The DaemonSet that runs plexusd: whether plexusd ends because that was deleted. */
export class OwnDaemonSet {
  readonly #options: OwnDaemonSetOptions;
  #found = false;
  /** Undefined until it is found, and if no DaemonSet runs plexusd. */
  #name: string | undefined;
  #accountWatch: WatchCache<true> | undefined;
  #isAccountDeleted = false;

  constructor(options: OwnDaemonSetOptions) {
    this.#options = options;
  }

  /** Finds the DaemonSet, once: at its end, plexusd may have no permission left. @throws ApiError */
  async find(): Promise<void> {
    if (this.#found) return;
    const { client, pod } = this.#options;
    const object = await client.json({ path: apiPaths.pod(pod), timeoutMs });
    const name = ownerOf(object);
    if (name !== undefined) {
      this.#name = name;
      const nodes = await this.#countNodes(name);
      const { serviceAccountName } = objectOf(object.spec);
      if (typeof serviceAccountName === "string") this.#watchAccount(serviceAccountName, nodes);
    }
    this.#found = true;
  }

  /** A watch of the DaemonSet would get an event for each node of a rollout; this one gets none. */
  #watchAccount(name: string, nodes: number): void {
    const { client, pod, logger } = this.#options;
    const watch = new WatchCache<true>({
      resource: "serviceaccounts",
      path: apiPaths.serviceAccounts(pod.namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      accept: { list: metadataListOnly, watch: metadataOnly },
      decode: () => true,
      client,
      logger,
    });
    watch.listen((_, isThere) => {
      this.#isAccountDeleted = isThere === undefined;
    });
    watch.spreadOver(nodes);
    this.#accountWatch = watch;
    void watch.run();
  }

  /** Ends the watch. */
  stop(): void {
    this.#accountWatch?.stop();
  }

  /** @throws ApiError, unless the DaemonSet may not be read */
  async #countNodes(name: string): Promise<number> {
    const { client, onNodes } = this.#options;
    try {
      const object = await client.json({ path: this.#pathOf(name), timeoutMs });
      const { desiredNumberScheduled } = objectOf(object.status);
      if (typeof desiredNumberScheduled !== "number") return 0;
      onNodes?.(desiredNumberScheduled);
      return desiredNumberScheduled;
    } catch (thrown) {
      if (asApiError(thrown).transient) throw thrown;
      return 0;
    }
  }

  /**
   * Whether the DaemonSet is deleted or being deleted. `kubectl delete -f install.yaml` deletes
   * plexusd's permissions and service account first, and `helm uninstall --no-hooks` one after the
   * other while plexusd asks, but the open watch of the service account still delivers its deletion.
   * A refused token alone is no sign: keys are rotated, and tokens expire. False when in doubt.
   */
  async isDeleted(): Promise<boolean> {
    const name = this.#name;
    if (name === undefined) return false;
    const { logger, timings = defaultTimings } = this.#options;
    const endsAt = performance.now() + timings.atMostMs;
    for (;;) {
      try {
        return await this.#ask(name);
      } catch (thrown) {
        const { status, message } = asApiError(thrown);
        const isRefused = status === 401 || status === 403;
        if (isRefused && this.#isAccountDeleted) return true;
        if (!isRefused || performance.now() > endsAt) {
          logger.warn({ error: message }, "cannot find out whether the DaemonSet is deleted");
          return false;
        }
      }
      await pause(timings.retryMs);
    }
  }

  /** @throws ApiError */
  async #ask(name: string): Promise<boolean> {
    const { client, pod } = this.#options;
    try {
      const object = await client.json({ path: this.#pathOf(name), timeoutMs });
      return objectOf(object.metadata).deletionTimestamp !== undefined;
    } catch (thrown) {
      if (!asApiError(thrown).isNotFound) throw thrown;
      // Another one adopts the pod after `kubectl delete --cascade=orphan`.
      const own = { path: apiPaths.pod(pod), timeoutMs };
      const owner = await client.json(own).then(ownerOf, () => undefined);
      return owner === undefined || owner === name || (await this.#ask(owner));
    }
  }

  #pathOf(name: string): string {
    const { namespace } = this.#options.pod;
    return apiPaths.daemonSet({ namespace, name });
  }
}

/** The name of a pod's DaemonSet. OpenKruise has others of that kind, which `apps` does not know. */
function ownerOf({ metadata }: JsonObject): string | undefined {
  const owners = objectsOf(objectOf(metadata).ownerReferences);
  const own = owners.find((each) => each.kind === "DaemonSet" && each.apiVersion === "apps/v1");
  const name = own?.name;
  return typeof name === "string" ? name : undefined;
}
