import type { V1Lease } from "@kubernetes/client-node";
import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { apply, timeoutMs } from "./writes.ts";

export interface LeaseOptions {
  readonly client: ApiClient;
  readonly namespace: string;
  /** Of this process. */
  readonly identity: string;
  readonly logger: Logger;
}

const name = "plexus-endpoints";
/** As Kubernetes' own controllers: when others may take it, when its holder stops, how often it is asked for. */
const times = { expiryMs: 15_000, heldMs: 10_000, retryMs: 2000 };

/** A Lease of the API, which one process holds at a time. */
export class Lease {
  readonly #options: LeaseOptions;
  /** The version that was read last, and when it was read first: clocks of processes differ. */
  #seen: { version?: string | undefined; at: number } = { at: 0 };
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get isHeld(): boolean {
    return performance.now() - this.#renewedAt < times.heldMs;
  }

  /** Takes and renews it until the signal, then lets others have it. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await pause(times.retryMs, signal))
      await this.#take(this.#options.identity);
    if (this.isHeld) await this.#take("");
  }

  async #take(holderIdentity: string): Promise<void> {
    const { client, namespace, identity, logger } = this.#options;
    const now = performance.now();
    try {
      const path = apiPaths.leasesOf(namespace);
      const query = { fieldSelector: `metadata.name=${name}` };
      const { items } = await client.json({ path, query, timeoutMs });
      const [{ metadata, spec } = {}] = items as V1Lease[];
      const version = metadata?.resourceVersion;
      if (version !== this.#seen.version) this.#seen = { version, at: now };
      const isFree = now - this.#seen.at > times.expiryMs;
      const isOfOther = (spec?.holderIdentity || identity) !== identity && !isFree;
      this.#renewedAt = isOfOther ? Number.NEGATIVE_INFINITY : this.#renewedAt;
      if (isOfOther) return;
      const renewTime = new Date().toISOString().replace("Z", "000Z");
      await apply(client, path, {
        ...{ apiVersion: "coordination.k8s.io/v1", kind: "Lease" },
        metadata: omitUndefined({ namespace, name, resourceVersion: version }),
        spec: { holderIdentity, leaseDurationSeconds: times.expiryMs / 1000, renewTime },
      });
      this.#renewedAt = now;
    } catch (error) {
      logger.warn({ error: asApiError(error).message }, "lease not renewed");
    }
  }
}
