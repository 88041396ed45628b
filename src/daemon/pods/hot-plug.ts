import { setTimeout as sleep } from "node:timers/promises";
import { asCniError } from "#cni/error.ts";
import type { Engine } from "#engine/engine.ts";
import type {
  HotPlugOperation,
  HotPlugOutcome,
  LastAttempt,
} from "#engine/hotplug/reports/outcome.ts";
import type { HotPlugOptions } from "#engine/hotplug/running-sandboxes.ts";
import type { Pod, PodName, PodState } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { NodePods } from "#kube/node/node.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import { type Claim, Slots } from "#lib/concurrency/slots.ts";
import type { AgentTasks } from "./agent-tasks.ts";
import { WatchedPod } from "./watched-pod.ts";

/** Comparisons with records at a time, before the agent is needed. */
const maxComparisons = 32;
/** How long attempts that run may take when plexusd stops: far less than its pod's grace period. */
const endingMs = 5000;

export interface HotPlugMetrics {
  operationEnded(operation: Pick<HotPlugOperation, "op" | "result">): void;
  /** From the time when the watch delivered the annotation until the status was written. */
  statusWritten(milliseconds: number): void;
}

interface HotPlugQueueOptions extends Pick<HotPlugOptions, "conf"> {
  readonly engine: Pick<Engine, "hotPlug" | "countOutdated">;
  readonly tasks: AgentTasks;
  readonly nodePods: Pick<NodePods, "list" | "read">;
  /** Called when an attempt has changed a pod's networks. */
  readonly changed: (pod: Pod) => void;
  readonly metrics: HotPlugMetrics;
  readonly logger: Logger;
}

interface Attempt extends Pick<HotPlugOptions, "isEdit" | "refreshed"> {
  readonly pod: Pod;
}

const failed: HotPlugOutcome = { state: "failed", operations: [] };
const busy: HotPlugOutcome = { state: "busy", operations: [] };

/**
 * Gives running pods the networks of their annotation: at the start, when it is edited, and again
 * until it is done. One attempt per pod at a time. Pods wait for each other only by their shares of
 * the agent: each namespace has one, and each set of networks.
 */
export class HotPlugQueue {
  readonly #options: HotPlugQueueOptions;
  readonly #comparisons = new Slots(maxComparisons);
  readonly #attempts = new Set<Promise<unknown>>();
  /** By `namespace/name`. */
  readonly #pods = new Map<string, WatchedPod>();
  /** How many attachments were made from a definition that has changed since. */
  outdated = 0;

  constructor(options: HotPlugQueueOptions) {
    this.#options = options;
  }

  /** How many pods lack networks of their annotation, or have others. */
  get pending(): number {
    return [...this.#pods.values()].filter(({ isPending }) => isPending).length;
  }

  /** Call this regularly. @throws CniError when a definition or the records cannot be read */
  async countOutdated(): Promise<void> {
    const { engine, conf } = this.#options;
    this.outdated = await engine.countOutdated(await conf());
  }

  /** The last attempt for a pod; undefined before the first one. */
  lastAttempt({ namespace, name }: PodName): LastAttempt | undefined {
    return this.#pods.get(`${namespace}/${name}`)?.lastAttempt;
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. */
  podChanged(key: string, pod: Pod | undefined): void {
    const known = this.#pods.get(key);
    if (known !== undefined && known.pod.uid === pod?.uid) {
      known.seen(pod);
      return;
    }
    known?.forget();
    this.#pods.delete(key);
    if (pod === undefined) return;
    const watched = new WatchedPod(pod, (due) => this.#start(due));
    this.#pods.set(key, watched);
    watched.wake();
  }

  /** Takes a definition (`namespace/name`) that the watch delivers: pods may wait for it. */
  definitionChanged(name: string): void {
    for (const watched of this.#pods.values()) watched.definitionChanged(name);
  }

  /** An agent has connected while there was none. */
  agentConnected(): void {
    for (const watched of this.#pods.values()) watched.agentConnected();
  }

  /** The pod has lost a network: the next attempt does not wait for the backoff of others. */
  heal({ uid }: Pick<Pod, "uid">): void {
    for (const watched of this.#pods.values()) if (watched.pod.uid === uid) watched.wake();
  }

  /** Call this regularly, and after a change of the configuration: compares every pod again. */
  async compareAll(): Promise<void> {
    for (const pod of this.#options.nodePods.list()) {
      const key = `${pod.namespace}/${pod.name}`;
      const watched = this.#pods.get(key);
      if (watched?.pod.uid === pod.uid) watched.compare();
      else this.podChanged(key, pod);
    }
  }

  /**
   * Plugs a network of a pod anew, with its present definition, within the limit of its attempts.
   * An attempt for the whole annotation follows.
   * @throws Error when the pod is not on this node; as {@link Engine.hotPlug}
   */
  async refresh({ namespace, name }: PodName, ifName: string): Promise<HotPlugOutcome> {
    const watched = this.#pods.get(`${namespace}/${name}`);
    if (watched === undefined) throw new Error("there is no such pod on this node");
    const { stopping } = this.#options.tasks;
    if (watched.waitMs > 0) await sleep(watched.waitMs, undefined, { signal: stopping });
    if (watched.isRunning) return busy;
    const { pod, isEdit } = watched;
    try {
      return await this.#attempt(watched, { pod, isEdit, refreshed: ifName });
    } finally {
      watched.wake();
    }
  }

  /** Starts no more attempts. The records of running ones soon say what is left to do. */
  async stop(): Promise<void> {
    const { tasks } = this.#options;
    tasks.beginNoMore();
    for (const watched of this.#pods.values()) watched.forget();
    const attempts = Promise.allSettled(this.#attempts);
    using limit = deadline(endingMs);
    await untilAborted(attempts, limit.signal).catch(() => undefined);
    tasks.end();
    await attempts;
  }

  /** An attempt that no caller waits for. */
  #start(watched: WatchedPod): void {
    const { tasks, logger } = this.#options;
    const { seenAt, isEdit, pod } = watched;
    if (tasks.stopping.aborted) return;
    this.#attempt(watched, { pod, isEdit }).then(
      ({ operations }) => this.#measure(operations, seenAt),
      (err: unknown) => {
        const fields = { podNamespace: pod.namespace, podName: pod.name, err };
        if (!tasks.stopping.aborted) logger.warn(fields, "cannot compare a pod's networks");
      },
    );
  }

  /** @throws as {@link Engine.hotPlug}, and the reason for which plexusd stops */
  async #attempt(watched: WatchedPod, attempt: Attempt): Promise<HotPlugOutcome> {
    const { metrics, changed, tasks } = this.#options;
    watched.begin();
    const running = this.#hotPlug(claimsOf(watched), attempt);
    this.#attempts.add(running);
    let outcome = failed;
    try {
      outcome = await running;
      for (const operation of outcome.operations) metrics.operationEnded(operation);
      if (outcome.operations.length > 0) changed(watched.pod);
      return outcome;
    } catch (error) {
      outcome = { ...failed, problems: [{ error: asCniError(error) }] };
      throw error;
    } finally {
      this.#attempts.delete(running);
      const lacksAgent = outcome.state === "busy" || !tasks.isAvailable();
      watched.end(outcome, { lacksAgent });
    }
  }

  async #hotPlug(claims: readonly Claim[], { pod, ...attempt }: Attempt): Promise<HotPlugOutcome> {
    const { engine, tasks, conf } = this.#options;
    using comparison = await this.#comparisons.acquire(tasks.stopping);
    // From then on, its share of the agent limits the attempt.
    const onOpen = (): void => comparison[Symbol.dispose]();
    const hosts = tasks.hosts({ claims, signal: tasks.ended, onOpen });
    const read: HotPlugOptions["read"] = (watched) => this.#read(watched);
    const isStopping = (): boolean => tasks.stopping.aborted;
    return engine.hotPlug(pod, { hosts, conf, read, isStopping, ...attempt });
  }

  #read(pod: Pod): Promise<PodState | undefined> {
    const { nodePods, tasks } = this.#options;
    return untilAborted(nodePods.read(pod), tasks.stopping);
  }

  #measure(operations: readonly HotPlugOperation[], seenAt: number): void {
    const { metrics } = this.#options;
    for (const { result, published } of operations) {
      if (result === "error") continue;
      void published.then(
        (isShown) => isShown && metrics.statusWritten(performance.now() - seenAt),
      );
    }
  }
}

/** A network that hangs must leave the rest of a namespace's share to its other pods. */
function claimsOf({ pod, networks }: WatchedPod): Claim[] {
  return [
    { key: `namespace ${pod.namespace}`, share: 2 },
    { key: `networks ${[...networks].toSorted().join()}`, share: 1 },
  ];
}
