import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "#engine/engine.ts";
import type { HotPlugOptions } from "#engine/hotplug/running-sandboxes.ts";
import type { Pod, PodName } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { NodePods } from "#kube/node/node.ts";
import { LruMap } from "#lib/lru-map.ts";

/** As long as an API server works on a request. Controllers write at once after their answer. */
const guardedMs = 60_000;
/** Far more than are changed within a minute. */
const maxPods = 1000;

interface StatusGuardOptions extends Pick<HotPlugOptions, "conf"> {
  readonly engine: Pick<Engine, "restoreStatus">;
  readonly nodePods: Pick<NodePods, "read">;
  readonly logger: Logger;
  /** A pod is read at most once in so many milliseconds. @default 1000 */
  readonly pauseMs?: number;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/**
 * Restores the network-status of pods whose networks have just changed. A controller that calls
 * `/delegate` writes what it knew before, in any order and without device information; and the
 * write of an earlier process may reach the API server late.
 */
export class StatusGuard {
  readonly #options: StatusGuardOptions;
  /** By `namespace/name`: until when others may write the pod's status, by the clock. */
  readonly #until = new LruMap<number>(maxPods);
  /** The pods that are being compared; whether the watch has delivered them meanwhile. */
  readonly #isSeenAgain = new Map<string, boolean>();

  constructor(options: StatusGuardOptions) {
    this.#options = options;
  }

  /** The pod's networks may have changed now. */
  note({ namespace, name }: PodName): void {
    this.#until.set(`${namespace}/${name}`, this.#options.clock() + guardedMs);
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. Never rejects. */
  async podChanged(key: string, pod: Pod | undefined): Promise<void> {
    if (pod === undefined || this.#options.clock() >= (this.#until.peek(key) ?? 0)) return;
    const isRunning = this.#isSeenAgain.has(key);
    this.#isSeenAgain.set(key, isRunning);
    if (isRunning) return;
    do {
      // Live reads have a limit, and those of edits come first.
      await sleep(this.#options.pauseMs ?? 1000, undefined, { ref: false });
      this.#isSeenAgain.set(key, false);
      await this.#compare(pod);
    } while (this.#isSeenAgain.get(key) === true);
    this.#isSeenAgain.delete(key);
  }

  async #compare(pod: Pod): Promise<void> {
    const { nodePods, engine, conf, logger } = this.#options;
    try {
      const live = await nodePods.read(pod);
      if (live !== undefined) await engine.restoreStatus(live, { conf });
    } catch (err) {
      logger.warn({ err }, "cannot restore a network-status");
    }
  }
}
