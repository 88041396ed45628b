import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "#engine/engine.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import type { HotPlugOptions, HotPlugOutcome } from "#engine/hotplug/hot-plug.ts";
import { SandboxUnavailableError } from "#engine/hotplug/sandbox-hosts.ts";
import { HostGoneError, type Logger, type Pod } from "#engine/ports.ts";
import type { NodePods } from "#kube/node/node.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { HotPlugQueue } from "./hot-plug.ts";

/** Controllers write the status at once after an answer, or when the API server is back. */
const drivenMs = 60_000;
const busyMs = 1000;
/** Far more than controllers drive within a minute. */
const maxPods = 1000;

/** What {@link DrivenPods} works with. */
export interface DrivenPodsOptions extends Pick<HotPlugOptions, "hosts" | "conf"> {
  readonly engine: Pick<Engine, "restoreStatus">;
  readonly nodePods: Pick<NodePods, "read">;
  readonly hotPlug: Pick<HotPlugQueue, "settle">;
  readonly logger: Logger;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/**
 * Pods whose networks a controller drives. It writes network-status too, from what it knew before
 * its request, in any order and without device information: Plexus restores its own status.
 */
export class DrivenPods {
  readonly #options: DrivenPodsOptions;
  /** By `namespace/name`: until when a controller may write the pod's status, by the clock. */
  readonly #until = new LruMap<number>(maxPods);

  constructor(options: DrivenPodsOptions) {
    this.#options = options;
  }

  /** Gives a pod the networks of its annotation, for a controller. @throws as {@link HotPlugQueue.settle} */
  async settle(pod: PodName): Promise<HotPlugOutcome> {
    const { hotPlug, clock } = this.#options;
    try {
      return await hotPlug.settle(pod);
    } finally {
      this.#until.set(`${pod.namespace}/${pod.name}`, clock() + drivenMs);
    }
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. Never rejects. */
  async podChanged(key: string, pod: Pod | undefined): Promise<void> {
    const { nodePods, engine, hosts, conf, logger, clock } = this.#options;
    if (pod === undefined) return;
    while (clock() < (this.#until.peek(key) ?? 0)) {
      try {
        const live = await nodePods.read(pod);
        if (live !== undefined) await engine.restoreStatus(live, { hosts, conf });
        return;
      } catch (err) {
        if (!(err instanceof SandboxUnavailableError || err instanceof HostGoneError))
          return logger.warn({ err }, "cannot restore the network-status that a controller wrote");
      }
      await sleep(busyMs, undefined, { ref: false });
    }
  }
}
