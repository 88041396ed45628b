import { dirname } from "node:path";
import type { Collection } from "#docker/json-files.ts";
import type { CniRuntime } from "#docker/netns/cni-runtime.ts";
import type { EndpointState } from "#docker/state.ts";
import type { Logger } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { EndpointHost } from "./endpoint-host.ts";
import type { Endpoints } from "./endpoints.ts";

/** The engine joins an endpoint right after it has created it, and removes it right after it has left. */
const transientMs = 120_000;
/** How long a teardown that failed is left alone. */
const backoffMs = 30_000;

/** What is compared with each other. */
export interface ReconcilerOptions {
  readonly stored: Collection<EndpointState>;
  readonly endpoints: Endpoints;
  readonly host: EndpointHost;
  readonly records: Pick<RecordStore, "list">;
  readonly runtime: Pick<CniRuntime, "del">;
  readonly bootId: string;
  /** Milliseconds of a clock that nobody sets. */
  readonly nowMs: () => number;
  readonly logger: Logger;
}

/**
 * Finds what the engine has forgotten. An engine that was killed removes its containers at its next
 * start without a call to any driver, and it swallows the errors of Leave and DeleteEndpoint.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  /** Endpoints without a container at the last run: between two of an engine's steps one may look like that. */
  #orphans: ReadonlySet<string> = new Set();
  /** Directories in which a container's namespace was seen: the driver sees what is mounted there. */
  readonly #seenDirectories = new Set<string>();
  /** Directories of containers' namespaces that are not there, which was logged. */
  readonly #hiddenDirectories = new Set<string>();
  readonly #notBefore = new Map<string, number>();
  /** When this process found each endpoint in its phase: the machine's clock may be set at any time. */
  #foundInPhase: ReadonlyMap<string, { readonly since: string; readonly atMs: number }> = new Map();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    for (const { sandboxKey, sandboxSeen } of options.stored.all()) {
      if (sandboxKey !== undefined && sandboxSeen) this.#seenDirectories.add(dirname(sandboxKey));
    }
  }

  /** Tears down what belongs to nothing any more. @throws Error when the state cannot be read */
  async run(): Promise<void> {
    const { stored, host } = this.#options;
    this.#noteWhatIsFound();
    const orphans = new Set<string>();
    for (const { id } of stored.all()) await this.#reconcile(id, orphans);
    this.#orphans = orphans;
    await this.#removeUnknownRecords();
    await host.removeNamespacesBut((id) => stored.get(id) !== undefined);
  }

  #noteWhatIsFound(): void {
    const found = this.#options.stored.all().map(({ id, since }) => {
      const before = this.#foundInPhase.get(id);
      const isSame = before !== undefined && before.since === since;
      return [id, isSame ? before : { since, atMs: this.#options.nowMs() }] as const;
    });
    this.#foundInPhase = new Map(found);
  }

  /** Whether an endpoint has been in its phase for longer than an engine leaves it there. */
  #isOverdue({ id, since }: EndpointState): boolean {
    const found = this.#foundInPhase.get(id);
    return found?.since === since && this.#options.nowMs() - found.atMs > transientMs;
  }

  async #reconcile(id: string, orphans: Set<string>): Promise<void> {
    const { endpoints, logger, nowMs } = this.#options;
    if (nowMs() < (this.#notBefore.get(id) ?? 0)) return;
    try {
      const removed = await endpoints.removeIf(id, (endpoint) => this.#isDue(endpoint, orphans));
      this.#notBefore.delete(id);
      if (removed) {
        logger.info({ endpoint: id }, "an endpoint that the engine has forgotten is detached");
      }
    } catch (error) {
      this.#notBefore.set(id, nowMs() + backoffMs);
      logger.warn({ endpoint: id, err: error }, "an endpoint could not be detached");
    }
  }

  async #isDue(endpoint: EndpointState, orphans: Set<string>): Promise<boolean> {
    const { bootId } = this.#options;
    const { phase, id } = endpoint;
    // No call is under way: the one that was has ended with its process, or has failed.
    if (phase === "creating" || phase === "deleting") return true;
    if (endpoint.bootId !== bootId) return true;
    if (phase !== "joined") return this.#isOverdue(endpoint);
    if (!(await this.#isOrphan(endpoint))) return false;
    orphans.add(id);
    return this.#orphans.has(id);
  }

  /**
   * Whether the interface is in no container: it is among the host's although its start should be over, as
   * after a Leave that nobody answered, or it went with its container's namespace.
   */
  async #isOrphan(endpoint: EndpointState): Promise<boolean> {
    const { host } = this.#options;
    if (await host.isOnHost(endpoint)) return this.#isOverdue(endpoint);
    const { sandboxKey = "" } = endpoint;
    const directory = dirname(sandboxKey);
    const found = await host.findSandbox(sandboxKey);
    if (found === "namespace") await this.#markSeen(endpoint, directory);
    if (found === "hidden") this.#reportHidden(directory);
    // The engine unmounts a namespace, and removes its file a minute later. Where none was ever seen they
    // may be mounted where this process does not see them.
    return found === "nothing" || (found === "other" && this.#seenDirectories.has(directory));
  }

  /** An engine that is started again starts its managed plugins again: what was seen is kept for the next process. */
  async #markSeen(endpoint: EndpointState, directory: string): Promise<void> {
    this.#seenDirectories.add(directory);
    if (endpoint.sandboxSeen) return;
    const seen = { ...endpoint, sandboxSeen: true as const };
    // On a full disk the next process looks for itself.
    await this.#options.stored.put(endpoint.id, seen).catch(() => undefined);
  }

  #reportHidden(directory: string): void {
    if (this.#hiddenDirectories.has(directory)) return;
    this.#hiddenDirectories.add(directory);
    this.#options.logger.warn(
      { directory },
      "containers' network namespaces cannot be seen: what Docker forgets stays attached",
    );
  }

  /** Records of which the endpoint's file was lost. */
  async #removeUnknownRecords(): Promise<void> {
    const { stored, records, runtime, logger } = this.#options;
    const found = await records.list();
    for (const { containerId, ifName } of [...found.records, ...found.damaged]) {
      if (stored.get(containerId) !== undefined) continue;
      const conf = { cniVersion: "1.0.0", name: "plexus", type: "plexus" };
      try {
        await runtime.del({ containerId, ifName, netns: "", conf });
        logger.info({ endpoint: containerId }, "a record without an endpoint is detached");
      } catch (error) {
        logger.warn({ endpoint: containerId, error: errorMessage(error) }, "a record remains");
      }
    }
  }
}
