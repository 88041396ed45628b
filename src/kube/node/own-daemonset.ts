import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";

/** Options of an {@link OwnDaemonSet}. */
export interface OwnDaemonSetOptions {
  readonly client: JsonApi;
  /** The pod that plexusd runs in. */
  readonly pod: ObjectName;
  /** Whether the watch of this node's pods still has that pod. */
  readonly isPodListed: () => boolean;
  /** Called with the number of nodes that shall run plexusd. */
  readonly onNodes?: (count: number) => void;
  readonly logger: Logger;
  /** How long to wait while all permissions are missing. */
  readonly timings?: { readonly retryMs: number; readonly atMostMs: number };
}

/** The API server accepts a token for ten seconds after its service account is deleted. */
const defaultTimings = { retryMs: 500, atMostMs: 15_000 };
const timeoutMs = 5000;

/** The DaemonSet that runs plexusd: whether plexusd ends because that was deleted. */
export class OwnDaemonSet {
  readonly #options: OwnDaemonSetOptions;
  #found = false;
  /** Undefined until it is found, and if no DaemonSet runs plexusd. */
  #name: string | undefined;

  constructor(options: OwnDaemonSetOptions) {
    this.#options = options;
  }

  /** Finds the DaemonSet, once: at its end, plexusd may have no permission left. @throws ApiError */
  async find(): Promise<void> {
    if (this.#found) return;
    const { client, pod } = this.#options;
    const object = await client.json({ path: apiPaths.pod(pod), timeoutMs });
    const { ownerReferences } = metadataOf(object);
    const owners = Array.isArray(ownerReferences) ? ownerReferences.filter(isJsonObject) : [];
    const name = owners.find((each) => each.kind === "DaemonSet")?.name;
    this.#name = typeof name === "string" ? name : undefined;
    if (this.#name !== undefined) await this.#countNodes(this.#name);
    this.#found = true;
  }

  /** @throws ApiError, unless the DaemonSet may not be read */
  async #countNodes(name: string): Promise<void> {
    const { client, onNodes } = this.#options;
    try {
      const object = await client.json({ path: this.#pathOf(name), timeoutMs });
      const { desiredNumberScheduled } = fieldOf(object, "status");
      if (typeof desiredNumberScheduled === "number") onNodes?.(desiredNumberScheduled);
    } catch (thrown) {
      if (asApiError(thrown).transient) throw thrown;
    }
  }

  /**
   * Whether the DaemonSet is deleted or being deleted. `kubectl delete -f install.yaml` deletes
   * plexusd's permissions and service account first. So it is deleted too if the API server refuses
   * the token, unless that was the pod's: the token of a pod that was deleted by force is refused,
   * and the watch, which still works, no longer has that pod. False when in doubt.
   */
  async isDeleted(): Promise<boolean> {
    const name = this.#name;
    if (name === undefined) return false;
    const { logger, timings = defaultTimings } = this.#options;
    const endsAt = performance.now() + timings.atMostMs;
    for (;;) {
      try {
        return (await this.#ask(name)) === "deleted";
      } catch (thrown) {
        const { status, message } = asApiError(thrown);
        if (status === 401) return this.#options.isPodListed();
        if (status !== 403 || performance.now() > endsAt) {
          logger.warn({ error: message }, "cannot find out whether the DaemonSet is deleted");
          return false;
        }
      }
      await pause(timings.retryMs);
    }
  }

  /** @throws ApiError 403 if all permissions are missing, not only the one for the DaemonSet */
  async #ask(name: string): Promise<"deleted" | "exists" | "unknown"> {
    const { client, pod } = this.#options;
    try {
      const object = await client.json({ path: this.#pathOf(name), timeoutMs });
      return metadataOf(object).deletionTimestamp === undefined ? "exists" : "deleted";
    } catch (thrown) {
      const { status } = asApiError(thrown);
      if (status === 404) return "deleted";
      if (status !== 403) throw thrown;
      await client.json({ path: apiPaths.pod(pod), timeoutMs });
      return "unknown";
    }
  }

  #pathOf(name: string): string {
    const { namespace } = this.#options.pod;
    return apiPaths.daemonSet({ namespace, name });
  }
}

function metadataOf(object: JsonObject): JsonObject {
  return fieldOf(object, "metadata");
}

function fieldOf(object: JsonObject, field: string): JsonObject {
  const value = object[field];
  return isJsonObject(value) ? value : {};
}
