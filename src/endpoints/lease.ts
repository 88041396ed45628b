import type { V1Lease } from "@kubernetes/client-node";
import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { timeoutMs } from "./writes.ts";

export interface LeaseOptions {
  readonly client: ApiClient;
  readonly namespace: string;
  /** Of this process. */
  readonly identity: string;
  readonly logger: Logger;
  /** How often the lease is asked for. @default 2000 */
  readonly renewMs?: number;
}

/** As Kubernetes' own controllers: when others may take it, and when its holder stops. */
const times = { expiryMs: 15_000, heldMs: 10_000 };

const name = "plexus-endpoints";

/** The Lease `plexus-endpoints`, which one process holds at a time. */
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
    const { identity, renewMs = 2000 } = this.#options;
    for (; !signal.aborted; await pause(renewMs, signal)) await this.#take(identity);
    if (this.isHeld) await this.#take("");
  }

  async #take(holderIdentity: string): Promise<void> {
    const { client, namespace, identity, logger } = this.#options;
    const path = apiPaths.lease({ namespace, name });
    const now = performance.now();
    try {
      const { metadata, spec } = await this.#read();
      const resourceVersion = metadata?.resourceVersion;
      if (resourceVersion !== this.#seen.version)
        this.#seen = { version: resourceVersion, at: now };
      const isExpired = now - this.#seen.at > times.expiryMs;
      const isOfOther = (spec?.holderIdentity || identity) !== identity;
      if (isOfOther) this.#renewedAt = Number.NEGATIVE_INFINITY;
      if (isOfOther && !isExpired) return;
      const renewTime = new Date().toISOString().replace("Z", "000Z");
      const renewed = { holderIdentity, leaseDurationSeconds: times.expiryMs / 1000, renewTime };
      await client.write({
        ...{ method: "PATCH", path, contentType: "application/merge-patch+json", timeoutMs },
        body: { metadata: { resourceVersion }, spec: renewed },
      });
      this.#renewedAt = now;
    } catch (error) {
      logger.warn({ error: asApiError(error).message }, "lease not renewed");
    }
  }

  /** Makes it if it is not there. Of two processes that do, the API server refuses one. */
  async #read(): Promise<V1Lease> {
    const { client, namespace } = this.#options;
    try {
      return await client.json({ path: apiPaths.lease({ namespace, name }), timeoutMs });
    } catch (error) {
      if (!asApiError(error).isNotFound) throw error;
      const metadata = { namespace, name };
      const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
      const path = apiPaths.leases(namespace);
      return client.json({ method: "POST", path, body, timeoutMs });
    }
  }
}
