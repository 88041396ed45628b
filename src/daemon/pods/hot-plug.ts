import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "#engine/engine.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import type { HotPlugOptions, HotPlugOutcome } from "#engine/hotplug/hot-plug.ts";
import type { HotPlugOperation } from "#engine/hotplug/steps.ts";
import type { Logger, Pod } from "#engine/ports.ts";
import type { NodePods } from "#kube/node/node.ts";
import { Slots } from "#lib/concurrency/slots.ts";
import type { StatusGuard } from "./status-guard.ts";
import { annotationsOf, busyBackoff, type WatchedPod, watchPod } from "./watched-pod.ts";

/** As long as a plugin may take. */
const settleMs = 60_000;
/** As many sandboxes as an agent changes at a time. */
const maxConcurrent = 32;

/** What {@link HotPlugQueue} records. */
export interface HotPlugMetrics {
  operationEnded(operation: Pick<HotPlugOperation, "op" | "result">): void;
  /** From the time when the watch delivered the annotation until the status was written. */
  statusWritten(milliseconds: number): void;
}

/** What {@link HotPlugQueue} works with. */
export interface HotPlugQueueOptions
  extends Omit<HotPlugOptions, "isEdit" | "read" | "isStopping"> {
  readonly engine: Pick<Engine, "hotPlug" | "countOutdated">;
  readonly nodePods: Pick<NodePods, "list" | "read">;
  /** Gets the pods whose networks may have changed. */
  readonly guard: Pick<StatusGuard, "note">;
  readonly isOn: () => boolean;
  readonly metrics: HotPlugMetrics;
  readonly logger: Logger;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/**
 * Gives running pods the networks of their annotation: at the start, when it is edited, and again
 * until it is done. One attempt per pod at a time; pods do not wait for each other.
 */
export class HotPlugQueue {
  readonly #options: HotPlugQueueOptions;
  readonly #slots = new Slots(maxConcurrent);
  readonly #stop = new AbortController();
  readonly #attempts = new Set<Promise<void>>();
  /** By UID. */
  readonly #pods = new Map<string, WatchedPod>();
  /** UIDs by `namespace/name`. */
  readonly #uids = new Map<string, string>();
  #outdated = 0;

  constructor(options: HotPlugQueueOptions) {
    this.#options = options;
  }

  /** How many pods lack networks of their annotation, or have others. */
  get pending(): number {
    const isPending = ({ state }: WatchedPod): boolean => ["running", "retrying"].includes(state);
    return [...this.#pods.values()].filter(isPending).length;
  }

  /** How many attachments were made from a definition that has changed since. */
  get outdated(): number {
    return this.#outdated;
  }

  /** Call this regularly. @throws CniError when a definition or the records cannot be read */
  async countOutdated(): Promise<void> {
    const { engine, conf } = this.#options;
    this.#outdated = await engine.countOutdated(await conf());
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. */
  podChanged(key: string, pod: Pod | undefined): void {
    const uid = this.#uids.get(key);
    if (uid !== undefined && uid !== pod?.uid) this.#forget(uid);
    if (pod === undefined) this.#uids.delete(key);
    else {
      this.#uids.set(key, pod.uid);
      this.#podSeen(pod);
    }
  }

  /** Tries again for pods that may wait for a definition or an agent. */
  retryAll(): void {
    for (const watched of this.#pods.values()) if (watched.state === "retrying") this.#try(watched);
  }

  /** Call this regularly, and after a change of the configuration: compares every pod again. */
  async compareAll(): Promise<void> {
    for (const pod of this.#options.nodePods.list()) {
      const watched = this.#pods.get(pod.uid);
      if (watched === undefined) this.podChanged(`${pod.namespace}/${pod.name}`, pod);
      else if (watched.state !== "retrying") this.#try(watched);
    }
  }

  /**
   * Plugs a network of a pod anew, with its present definition.
   * @throws Error when the pod is not on this node; as {@link Engine.hotPlug}
   */
  async refresh(pod: PodName, ifName: string): Promise<HotPlugOutcome> {
    const watched = this.#watchedPod(pod);
    const outcome = await this.#engineHotPlug(watched, ifName);
    for (const operation of outcome.operations) this.#options.metrics.operationEnded(operation);
    // What the annotation requests is plugged again, whatever failed.
    this.#try(watched);
    return outcome;
  }

  /**
   * Gives a pod the networks of its live annotation, for a caller that waits: the watch may not have
   * delivered the edit yet. Waits a minute for another operation on the sandbox.
   * @throws Error when hot-plug is off, or the pod is not on this node; as {@link Engine.hotPlug}
   */
  async settle(name: PodName): Promise<HotPlugOutcome> {
    const { nodePods, metrics, guard, isOn, clock } = this.#options;
    if (!isOn()) throw new Error("`hotPlug` is off in plexusd's configuration");
    const watched = this.#watchedPod(name);
    const until = clock() + settleMs;
    for (;;) {
      using _slot = await this.#slots.acquire(this.#stop.signal);
      const pod = (await nodePods.read(watched.pod)) ?? watched.pod;
      const outcome = await this.#engineHotPlug({ pod, isEdit: true });
      for (const operation of outcome.operations) metrics.operationEnded(operation);
      if (outcome.state !== "busy" || clock() >= until) {
        // The caller writes the status, too.
        guard.note(name);
        this.#try(watched);
        return outcome;
      }
      await sleep(busyBackoff.initialMs, undefined, { signal: this.#stop.signal });
    }
  }

  /** @throws Error */
  #watchedPod({ namespace, name }: PodName): WatchedPod {
    const watched = this.#pods.get(this.#uids.get(`${namespace}/${name}`) ?? "");
    if (watched === undefined) throw new Error("there is no such pod on this node");
    return watched;
  }

  async #engineHotPlug(
    { pod, isEdit }: Pick<WatchedPod, "pod" | "isEdit">,
    refreshed?: string,
  ): Promise<HotPlugOutcome> {
    const { engine, hosts, conf, nodePods, guard } = this.#options;
    const read: HotPlugOptions["read"] = (watched) => nodePods.read(watched);
    const isStopping = (): boolean => this.#stop.signal.aborted;
    const options = { hosts, conf, read, isEdit, refreshed, isStopping };
    const outcome = await engine.hotPlug(pod, options);
    if (outcome.operations.length > 0) guard.note(pod);
    return outcome;
  }

  /** Starts no more attempts, and waits for those that run. */
  async stop(): Promise<void> {
    this.#stop.abort();
    for (const { timer } of this.#pods.values()) clearTimeout(timer);
    await Promise.all(this.#attempts);
  }

  #podSeen(pod: Pod): void {
    const text = annotationsOf(pod);
    const seenAt = this.#options.clock();
    const known = this.#pods.get(pod.uid);
    const watched = known ?? watchPod(pod, seenAt);
    watched.pod = pod;
    if (known === undefined) this.#pods.set(pod.uid, watched);
    else if (known.text !== text) {
      Object.assign(known, { text, seenAt, isEdit: true });
      known.failures.reset();
    } else if (known.state !== "waiting") {
      known.isSeenAgain = true;
      return;
    }
    this.#try(watched);
  }

  #forget(uid: string): void {
    clearTimeout(this.#pods.get(uid)?.timer);
    this.#pods.delete(uid);
  }

  #try(watched: WatchedPod): void {
    clearTimeout(watched.timer);
    if (watched.state === "running") {
      watched.isOutdated = true;
      return;
    }
    const isOn = this.#options.isOn() && !this.#stop.signal.aborted;
    watched.state = isOn ? "running" : "new";
    if (!isOn) return;
    watched.isOutdated = watched.isSeenAgain = false;
    const attempt = this.#attempt(watched).finally(() => this.#attempts.delete(attempt));
    this.#attempts.add(attempt);
  }

  async #attempt(watched: WatchedPod): Promise<void> {
    const { seenAt } = watched;
    const { state, operations } = await this.#hotPlug(watched);
    for (const operation of operations) this.#measure(operation, seenAt);
    if (state === "settled" || state === "waiting") watched.state = state;
    else watched.state = "retrying";
    if (state !== "busy") watched.busy.reset();
    if (state !== "failed" && state !== "busy") watched.failures.reset();
    if (!this.#pods.has(watched.pod.uid)) return;
    // What it waits for may have come before the attempt's end.
    const hasCome = state === "waiting" && watched.isSeenAgain;
    if (watched.isOutdated || hasCome) return this.#try(watched);
    if (watched.state !== "retrying" || this.#stop.signal.aborted) return;
    const delayMs = (state === "busy" ? watched.busy : watched.failures).next();
    watched.timer = setTimeout(() => this.#try(watched), delayMs);
  }

  async #hotPlug(watched: WatchedPod): Promise<HotPlugOutcome> {
    try {
      using _slot = await this.#slots.acquire(this.#stop.signal);
      return await this.#engineHotPlug(watched);
    } catch (err) {
      const { namespace: podNamespace, name: podName } = watched.pod;
      const fields = { podNamespace, podName, err };
      const isStopped = this.#stop.signal.aborted;
      if (!isStopped) this.#options.logger.warn(fields, "cannot compare a pod's networks");
      return { state: "failed", operations: [] };
    }
  }

  #measure(operation: HotPlugOperation, seenAt: number): void {
    const { metrics, clock } = this.#options;
    metrics.operationEnded(operation);
    if (operation.result === "error") return;
    void operation.published.then(() => metrics.statusWritten(clock() - seenAt));
  }
}
