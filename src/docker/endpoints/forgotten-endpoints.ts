import { dirname } from "node:path";
import type { CniRuntime } from "#docker/netns/cni-runtime.ts";
import type { EndpointState } from "#docker/state.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { Endpoints, EndpointsOptions } from "./endpoints.ts";

/** dockerd joins an endpoint right after it creates it, and deletes it right after Leave. */
const transientMs = 120_000;
/** Delay before a failed detach is retried. */
const backoffMs = 30_000;

interface ForgottenEndpointsOptions
  extends Pick<EndpointsOptions, "stored" | "host" | "bootId" | "logger"> {
  readonly endpoints: Endpoints;
  readonly records: RecordReader;
  readonly runtime: Pick<CniRuntime, "del">;
  /** Milliseconds, monotonic. */
  readonly nowMs: () => number;
}

/**
 * Detaches endpoints that dockerd forgot. After a crash dockerd removes its containers at its next
 * start without calling any driver, and it ignores errors of Leave and DeleteEndpoint.
 *
 * A container's endpoint is detached only when two independent signs say that it is gone: its
 * namespace is no longer mounted where dockerd mounted it, and no process has its interface.
 */
export class ForgottenEndpoints {
  readonly #options: ForgottenEndpointsOptions;
  /** By endpoint: an operation that needs what it has waits for a run in progress. */
  readonly #turns = new KeyedMutex();
  /** Endpoints that may have no container, at the last run; any may be one between steps of dockerd. */
  #orphans: ReadonlySet<string> = new Set();
  /** Directories where the driver has seen a container's namespace and a process in it. */
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

  /** Detaches each of these endpoints that is certainly forgotten: an operation needs what it has. */
  async detachNow(endpointIds: readonly string[]): Promise<void> {
    for (const id of endpointIds) await this.#detachIfForgotten(id);
  }

  /** Looks at containers that have just started, so that the driver knows what it can see of them. */
  async lookAtNewContainers(): Promise<void> {
    this.#updateFirstSeen();
    const joined = this.#options.stored.all().filter(({ phase }) => phase === "joined");
    const unseen = joined.filter((each) => each.sandboxSeen !== true && !this.#isOverdue(each));
    await this.detachNow(unseen.map(({ id }) => id));
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

  /** @param orphans collects endpoints that the next run may detach */
  async #detachIfForgotten(id: string, orphans?: Set<string>): Promise<void> {
    using _turn = await this.#turns.acquire(id);
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

  async #isDue(endpoint: EndpointState, orphans?: Set<string>): Promise<boolean> {
    const { phase, bootId } = endpoint;
    // Under the lock no call is in flight: the one that set the phase failed or was killed.
    if (phase === "creating" || phase === "deleting") return true;
    if (phase === "joined") return await this.#hasLostContainer(endpoint, orphans);
    if (this.#isOverdue(endpoint)) return true;
    return bootId !== this.#options.bootId && (await this.#hasLostInterface(endpoint));
  }

  async #hasLostInterface(endpoint: EndpointState): Promise<boolean> {
    const { host } = this.#options;
    if (await host.isOnHost(endpoint)) return false;
    return !(await host.isStaged(endpoint)) && (await host.isInUse(endpoint)) === false;
  }

  /** The steps are in the order in which dockerd moves an interface, so that none is missed. */
  async #hasLostContainer(endpoint: EndpointState, orphans?: Set<string>): Promise<boolean> {
    const { host, bootId } = this.#options;
    const { id, sandboxKey = "", sandboxSeen } = endpoint;
    const directory = dirname(sandboxKey);
    const found = await host.namespaces.find(sandboxKey);
    if (found === "namespace") {
      await this.#markSeen(endpoint, directory);
      return this.#isOverdue(endpoint) && (await host.isOnHost(endpoint));
    }
    if (found === "hidden") this.#warnOfHidden(directory);
    // Not taken yet by a container that starts, or put back.
    if (await host.isOnHost(endpoint)) return sandboxSeen === true || this.#isOverdue(endpoint);
    const isInUse = await host.isInUse(endpoint);
    if (isInUse === true) return false;
    const isVisible = this.#visibleDirectories.has(directory);
    // A process in another container can read another boot ID.
    const isOver = endpoint.bootId !== bootId && (isInUse === false || found === "nothing");
    if (isOver || (isVisible && isInUse === false)) return true;
    // dockerd unmounts a namespace, and removes its file a minute later. The file counts as
    // unmounted only in a directory where mounts are visible to this process.
    if (found !== "nothing" && !(found === "other" && isVisible)) return false;
    orphans?.add(id);
    return orphans !== undefined && this.#orphans.has(id);
  }

  #warnOfHidden(directory: string): void {
    if (this.#hiddenDirectories.has(directory)) return;
    this.#hiddenDirectories.add(directory);
    const problem = "cannot see containers' network namespaces";
    const { logger } = this.#options;
    logger.warn({ directory }, `${problem}; endpoints that dockerd forgets stay attached`);
  }

  /** Also for the next process: a restart of dockerd restarts its managed plugins. */
  async #markSeen(endpoint: EndpointState, directory: string): Promise<void> {
    const { host, stored } = this.#options;
    if (endpoint.sandboxSeen && this.#visibleDirectories.has(directory)) return;
    if (!(await host.namespaces.hasProcess(endpoint.sandboxKey ?? ""))) return;
    this.#visibleDirectories.add(directory);
    const seen = { ...endpoint, sandboxSeen: true as const };
    // If the disk is full, the next process sees the namespace itself.
    await stored.put(endpoint.id, seen).catch(() => undefined);
  }

  /**
   * Detaches what is recorded for endpoints whose file was lost. That the file is missing is one
   * sign; the other is that no process has the recorded interface.
   */
  async #detachUnknownRecords(): Promise<void> {
    const { stored, host, records, runtime, logger } = this.#options;
    const { records: usable, damaged } = await records.list();
    for (const record of [...usable, ...damaged]) {
      const { containerId, ifName } = record;
      if (stored.get(containerId) !== undefined) continue;
      if ((await host.isRecordInUse(record)) !== false) continue;
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
