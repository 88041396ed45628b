import type { Engine } from "#engine/engine.ts";
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
}

/** Finds interfaces that have disappeared from running pods of this node (`inspect`). */
export class LostInterfaces {
  readonly #options: LostInterfacesOptions;
  readonly #slots = new Slots(maxLooks);
  /** UIDs of pods that are being looked into, or wait for it. */
  readonly #running = new Set<string>();

  constructor(options: LostInterfacesOptions) {
    this.#options = options;
  }

  /** Call this regularly, without waiting for the end. */
  async check(): Promise<void> {
    await Promise.all(this.#options.nodePods.list().map((pod) => this.look(pod)));
  }

  /** Looks into a pod, unless that runs. Never rejects: what fails is left for the next time. */
  async look(pod: Pod): Promise<void> {
    if (this.#running.has(pod.uid)) return;
    const { tasks, hotPlug } = this.#options;
    this.#running.add(pod.uid);
    try {
      using _slot = await this.#slots.acquire(tasks.stopping);
      if (await this.#willHeal(pod)) hotPlug.heal(pod);
    } catch {
      // plexusd stops.
    } finally {
      this.#running.delete(pod.uid);
    }
  }

  async #willHeal(pod: Pod): Promise<boolean> {
    const { engine, tasks, conf, logger } = this.#options;
    try {
      const hosts = tasks.hosts({ claims, signal: tasks.stopping });
      return (await engine.inspect(pod, { hosts, conf })).willHeal;
    } catch (error) {
      const isUsual = error instanceof SandboxUnavailableError || error instanceof HostGoneError;
      if (!isUsual) logger.warn({ err: error }, "cannot look for lost interfaces");
      return false;
    }
  }
}
