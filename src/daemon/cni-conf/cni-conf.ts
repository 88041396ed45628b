import { WakeableSleep } from "#lib/concurrency/wakeable-sleep.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type DirectoryWatch, watchDirectory } from "#lib/files/watch-directory.ts";
import type { WaitPhase } from "./phases.ts";
import { NodeConfReconciler, type ReconcilerOptions } from "./reconciler.ts";
import { isSameStatus, type NodeConfStatus } from "./status.ts";
import { defaultTimings, type NodeConfTimings } from "./timings.ts";

/** Options of {@link startNodeConf}; call {@link NodeConf.reconcileNow} when `spec` changes. */
export interface NodeConfOptions extends Omit<ReconcilerOptions, "timings"> {
  readonly onChange?: (status: NodeConfStatus, before: NodeConfStatus) => void;
  /** @default defaultTimings */
  readonly timings?: Partial<NodeConfTimings>;
}

/** Keeps the node's CNI configuration up to date. */
export interface NodeConf {
  status(): NodeConfStatus;
  notReadyReason(): string | undefined;
  reconcileNow(): void;
  /** Keeps the file: only an uninstallation removes it. */
  stop(): Promise<void>;
}

/** Keeps `00-plexus.conflist` in the runtime's directory; resolves after the first round. */
export async function startNodeConf(options: NodeConfOptions): Promise<NodeConf> {
  const loop = new NodeConfLoop(options);
  await loop.start();
  return loop;
}

/** Reconciles at the start, after each change of a watched directory, and regularly. */
class NodeConfLoop implements NodeConf {
  readonly #options: NodeConfOptions;
  readonly #timings: NodeConfTimings;
  readonly #reconciler: NodeConfReconciler;
  readonly #sleep: WakeableSleep;
  #status: NodeConfStatus = {
    state: "waiting",
    reason: "the node's configuration has not been checked yet",
  };
  #watches: readonly DirectoryWatch[] = [];
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: NodeConfOptions) {
    this.#options = options;
    this.#timings = { ...defaultTimings, ...options.timings };
    this.#reconciler = new NodeConfReconciler({ ...options, timings: this.#timings });
    this.#sleep = new WakeableSleep(this.#timings.debounceMs);
  }

  async start(): Promise<void> {
    const { cniConfDir, primaryDir } = this.#options.spec();
    await this.#reconciler.load();
    // Watches start before the first round, so that no change is missed.
    const dirs = [...new Set([cniConfDir, primaryDir])];
    const wake = (): void => this.reconcileNow();
    this.#watches = await Promise.all(dirs.map((dir) => watchDirectory(dir, wake)));
    this.#running = this.#run(await this.#round());
  }

  status(): NodeConfStatus {
    return this.#status;
  }

  notReadyReason(): string | undefined {
    return this.#status.state === "active" ? undefined : this.#status.reason;
  }

  reconcileNow(): void {
    this.#sleep.wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sleep.close();
    await this.#running;
  }

  async #run(first: WaitPhase): Promise<void> {
    for (let wait = first; !this.#stopped; ) {
      await Promise.all(this.#watches.map((each) => each.rearm()));
      await this.#sleep.sleep(wait.atMostMs);
      if (!this.#stopped) wait = await this.#round();
    }
    for (const each of this.#watches) each.close();
  }

  async #round(): Promise<WaitPhase> {
    const wait = await this.#reconciler.reconcile().catch((error) => this.#failed(error));
    this.#report(wait.status);
    return wait;
  }

  #failed(error: unknown): WaitPhase {
    this.#options.logger.error({ err: error }, "the node's CNI configuration cannot be kept");
    const reason = `the node's configuration cannot be kept: ${errorMessage(error)}`;
    const status: NodeConfStatus = { state: "waiting", reason };
    return { phase: "wait", status, atMostMs: this.#timings.waitingPollMs };
  }

  #report(status: NodeConfStatus): void {
    const before = this.#status;
    if (isSameStatus(before, status)) return;
    this.#status = status;
    const isWell = status.state === "active" && status.warning === undefined;
    const level = isWell ? "info" : "warn";
    this.#options.logger[level]({ ...status }, "node configuration state");
    this.#options.onChange?.(status, before);
  }
}
