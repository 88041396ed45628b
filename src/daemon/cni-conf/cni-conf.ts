import { isDeepStrictEqual } from "node:util";
import { WakeableSleep } from "#lib/concurrency/wakeable-sleep.ts";
import { errorMessage } from "#lib/error-message.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { type DirectoryWatch, watchDirectory } from "#lib/files/watch-directory.ts";
import {
  NodeConfReconciler,
  type NodeConfTimings,
  type ReconcilerOptions,
  type Round,
} from "./reconciler.ts";
import type { NodeConfStatus } from "./status.ts";

const defaultTimings: NodeConfTimings = {
  pollMs: 30_000,
  waitingPollMs: 1000,
  debounceMs: 100,
  settleMs: 3000,
  goneMs: 60_000,
  restore: { initialMs: 100, maxMs: 30_000, factor: 4, jitter: 0.2 },
  repair: { initialMs: 500, maxMs: 2000, jitter: 0 },
  calmMs: 600_000,
};

/** Options of a {@link NodeConf}; call {@link NodeConf.reconcileNow} when `spec` changes. */
export interface NodeConfOptions extends Omit<ReconcilerOptions, "timings"> {
  readonly onChange?: (status: NodeConfStatus, before: NodeConfStatus) => void;
  /** For tests. */
  readonly timings?: Partial<NodeConfTimings>;
}

/** Reconciles `00-plexus.conflist` at the start, after changes of a directory, and regularly. */
export class NodeConf {
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

  /** Resolves after the first round. */
  async start(): Promise<this> {
    const { cniConfDir, primaryDir } = this.#options.spec();
    await this.#reconciler.load();
    // Watches start before the first round, so that no change is missed.
    const dirs = [...new Set([cniConfDir, primaryDir])];
    // A write that fails must not cause the next one.
    const isOwn = (name: string): boolean => targetOfTemporaryName(name) === plexusConfName;
    const wake = (name: string | null): void => {
      if (name === null || !isOwn(name)) this.reconcileNow();
    };
    this.#watches = await Promise.all(dirs.map((dir) => watchDirectory(dir, wake)));
    this.#running = this.#run(await this.#next());
    return this;
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

  /** Keeps the file: a restart must not change the node's network. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sleep.close();
    await this.#running;
  }

  async #run(first: Round): Promise<void> {
    for (let round = first; !this.#stopped; ) {
      await Promise.all(this.#watches.map((each) => each.rearm()));
      await this.#sleep.sleep(round.atMostMs);
      if (!this.#stopped) round = await this.#next();
    }
    for (const each of this.#watches) each.close();
  }

  async #next(): Promise<Round> {
    const round = await this.#reconciler.reconcile().catch((error) => this.#failed(error));
    this.#report(round.status);
    return round;
  }

  #failed(error: unknown): Round {
    const reason = `the node's configuration cannot be kept: ${errorMessage(error)}`;
    return { status: { state: "waiting", reason }, atMostMs: this.#timings.waitingPollMs };
  }

  #report(status: NodeConfStatus): void {
    const before = this.#status;
    if (isDeepStrictEqual(before, status)) return;
    this.#status = status;
    const { state, warning, chainProblem } = status;
    const isWell = state === "active" && warning === undefined && chainProblem === undefined;
    const level = isWell ? "info" : "warn";
    this.#options.logger[level]({ ...status }, "node configuration state");
    this.#options.onChange?.(status, before);
  }
}
