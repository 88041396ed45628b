import { dirname } from "node:path";
import type { CniRuntime } from "#docker/netns/cni-runtime.ts";
import type { EndpointState } from "#docker/state.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { Endpoints, EndpointsOptions } from "./endpoints.ts";

/** dockerd joins an endpoint right after it creates it, and deletes it right after Leave. */
const transientMs = 120_000;
/** Delay before a failed detach is retried. */
const backoffMs = 30_000;

/** What {@link ForgottenEndpoints} works with. */
export interface ForgottenEndpointsOptions
  extends Pick<EndpointsOptions, "stored" | "host" | "bootId" | "logger"> {
  readonly endpoints: Endpoints;
  readonly records: Pick<RecordStore, "list">;
  readonly runtime: Pick<CniRuntime, "del">;
  /** Milliseconds, monotonic. */
  readonly nowMs: () => number;
}

/**
 * Detaches endpoints that dockerd forgot. After a crash dockerd removes its containers at its next
 * start without calling any driver, and it ignores errors of Leave and DeleteEndpoint.
 */
export class ForgottenEndpoints {
  readonly #options: ForgottenEndpointsOptions;
  /** Endpoints without a container at the last run; any may be one between steps of dockerd. */
  #orphans: ReadonlySet<string> = new Set();
  /** Directories where the driver has seen a container's namespace, so mounts there are visible. */
  readonly #visibleDirectories = new Set<string>();
  /** Missing directories of containers' namespaces that were logged. */
  readonly #hiddenDirectories = new Set<string>();
  readonly #notBefore = new Map<string, number>();
  /** When this process first saw each endpoint in its phase, on a clock that is never set. */
  #firstSeen: ReadonlyMap<string, { readonly since: string; readonly atMs: number }> = new Map();

  constructor(options: ForgottenEndpointsOptions) {
    this.#options = options;
    for (const { sandboxKey, sandboxSeen } of options.stored.all()) {
      if (sandboxKey !== undefined && sandboxSeen)
        this.#visibleDirectories.add(dirname(sandboxKey));
    }
  }

  /** Detaches forgotten endpoints. @throws Error when the state cannot be read */
  async detach(): Promise<void> {
    const { stored, host } = this.#options;
    this.#updateFirstSeen();
    const orphans = new Set<string>();
    for (const { id } of stored.all()) await this.#detachIfForgotten(id, orphans);
    this.#orphans = orphans;
    await this.#detachUnknownRecords();
    await host.removeNamespacesExcept((id) => stored.get(id) !== undefined);
  }

  #updateFirstSeen(): void {
    const { stored, nowMs } = this.#options;
    const seen = stored.all().map(({ id, since }) => {
      const before = this.#firstSeen.get(id);
      return [id, before?.since === since ? before : { since, atMs: nowMs() }] as const;
    });
    this.#firstSeen = new Map(seen);
  }

  #isOverdue({ id, since }: EndpointState): boolean {
    const seen = this.#firstSeen.get(id);
    return seen?.since === since && this.#options.nowMs() - seen.atMs > transientMs;
  }

  async #detachIfForgotten(id: string, orphans: Set<string>): Promise<void> {
    const { endpoints, logger, nowMs } = this.#options;
    if (nowMs() < (this.#notBefore.get(id) ?? 0)) return;
    try {
      const removed = await endpoints.removeIf(id, (endpoint) => this.#isDue(endpoint, orphans));
      this.#notBefore.delete(id);
      if (removed) logger.info({ endpoint: id }, "detached an endpoint that dockerd forgot");
    } catch (error) {
      this.#notBefore.set(id, nowMs() + backoffMs);
      logger.warn({ endpoint: id, err: error }, "could not detach an endpoint");
    }
  }

  async #isDue(endpoint: EndpointState, orphans: Set<string>): Promise<boolean> {
    const { phase, id } = endpoint;
    // Under the lock no call is in flight: the one that set the phase failed or was killed.
    if (phase === "creating" || phase === "deleting") return true;
    if (endpoint.bootId !== this.#options.bootId) return true;
    if (phase !== "joined") return this.#isOverdue(endpoint);
    if (!(await this.#isOrphan(endpoint))) return false;
    orphans.add(id);
    return this.#orphans.has(id);
  }

  /** No container has the interface: it is on the host (again), or its namespace is gone. */
  async #isOrphan(endpoint: EndpointState): Promise<boolean> {
    const { host, logger } = this.#options;
    if (await host.isOnHost(endpoint)) return this.#isOverdue(endpoint);
    const { sandboxKey = "" } = endpoint;
    const directory = dirname(sandboxKey);
    const found = await host.namespaces.find(sandboxKey);
    if (found === "namespace") await this.#markSeen(endpoint, directory);
    if (found === "hidden" && !this.#hiddenDirectories.has(directory)) {
      this.#hiddenDirectories.add(directory);
      const problem = "cannot see containers' network namespaces";
      logger.warn({ directory }, `${problem}; endpoints that dockerd forgets stay attached`);
    }
    // dockerd unmounts a namespace, and removes its file a minute later. The file counts as
    // unmounted only in a directory where mounts are visible to this process.
    return found === "nothing" || (found === "other" && this.#visibleDirectories.has(directory));
  }

  /** Also for the next process: a restart of dockerd restarts its managed plugins. */
  async #markSeen(endpoint: EndpointState, directory: string): Promise<void> {
    this.#visibleDirectories.add(directory);
    if (endpoint.sandboxSeen) return;
    const seen = { ...endpoint, sandboxSeen: true as const };
    // If the disk is full, the next process sees the namespace itself.
    await this.#options.stored.put(endpoint.id, seen).catch(() => undefined);
  }

  /** Detaches what is recorded for endpoints whose file was lost. */
  async #detachUnknownRecords(): Promise<void> {
    const { stored, records, runtime, logger } = this.#options;
    const { records: usable, damaged } = await records.list();
    for (const { containerId, ifName } of [...usable, ...damaged]) {
      if (stored.get(containerId) !== undefined) continue;
      const conf = { cniVersion: "1.0.0", name: "plexus", type: "plexus" };
      try {
        await runtime.del({ containerId, ifName, netns: "", conf });
        logger.info({ endpoint: containerId }, "detached a record without an endpoint");
      } catch (error) {
        const fields = { endpoint: containerId, error: errorMessage(error) };
        logger.warn(fields, "could not detach a record without an endpoint");
      }
    }
  }
}
