import type { Engine } from "#engine/engine.ts";
import type { Inspection } from "#engine/hotplug/inspection/heal.ts";
import type { HotPlugOptions } from "#engine/hotplug/running-sandboxes.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import type { NodePods } from "#kube/node/node.ts";
import { Slots } from "#lib/concurrency/slots.ts";
import type { AgentTasks } from "./agent-tasks.ts";
import type { HotPlugQueue } from "./hot-plug.ts";

const maxLooks = 8;
/** Hot-plug has the rest of the agent. */
const claims = [{ key: "looks for lost interfaces", share: 1 }];

interface LostInterfacesOptions extends Pick<HotPlugOptions, "conf"> {
  readonly engine: Pick<Engine, "inspect">;
  readonly tasks: AgentTasks;
  readonly nodePods: Pick<NodePods, "list">;
  readonly hotPlug: Pick<HotPlugQueue, "heal">;
  readonly logger: Logger;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** Finds interfaces that have disappeared from running pods of this node (`inspect`). */
export class LostInterfaces {
  readonly #options: LostInterfacesOptions;
  readonly #slots = new Slots(maxLooks);
  /** By UID: how many milliseconds the last look into a pod took. */
  readonly #costs = new Map<string, number>();
  /** UIDs of pods that are being looked into, or wait for it. */
  readonly #running = new Set<string>();

  constructor(options: LostInterfacesOptions) {
    this.#options = options;
  }

  /**
   * Call this regularly, without waiting for the end. Pods whose last look took long come last: an
   * agent waits ten seconds for processes that plugins have left in a sandbox.
   */
  async check(): Promise<void> {
    const pods = this.#options.nodePods.list();
    const uids = new Set(pods.map(({ uid }) => uid));
    for (const uid of this.#costs.keys()) if (!uids.has(uid)) this.#costs.delete(uid);
    const cost = ({ uid }: Pod): number => this.#costs.get(uid) ?? 0;
    const due = pods.filter(({ uid }) => !this.#running.has(uid));
    await Promise.all(due.toSorted((a, b) => cost(a) - cost(b)).map((pod) => this.#look(pod)));
  }

  /** The pod's networks have changed: what was found before is no longer true. */
  lookAgain(pod: Pod): void {
    if (!this.#running.has(pod.uid)) void this.#look(pod);
  }

  /** Never rejects. A pod that cannot be looked into now is left for the next time. */
  async #look(pod: Pod): Promise<void> {
    const { tasks, hotPlug, clock } = this.#options;
    this.#running.add(pod.uid);
    try {
      using _slot = await this.#slots.acquire(tasks.stopping);
      const startedAt = clock();
      const found = await this.#inspect(pod);
      this.#costs.set(pod.uid, clock() - startedAt);
      if (found?.willHeal === true) hotPlug.heal(pod);
    } catch {
      // plexusd stops.
    } finally {
      this.#running.delete(pod.uid);
    }
  }

  async #inspect(pod: Pod): Promise<Inspection | undefined> {
    const { engine, tasks, conf, logger } = this.#options;
    try {
      const hosts = tasks.hosts({ claims, signal: tasks.stopping });
      return await engine.inspect(pod, { hosts, conf });
    } catch (error) {
      const isUsual = error instanceof SandboxUnavailableError || error instanceof HostGoneError;
      if (!isUsual) logger.warn({ err: error }, "cannot look for lost interfaces");
      return undefined;
    }
  }
}
