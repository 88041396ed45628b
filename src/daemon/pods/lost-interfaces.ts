import type { Engine } from "#engine/engine.ts";
import type { HotPlugOptions } from "#engine/hotplug/hot-plug.ts";
import { SandboxUnavailableError } from "#engine/hotplug/sandbox-hosts.ts";
import { HostGoneError, type Logger } from "#engine/ports.ts";
import type { NodePods } from "#kube/node/node.ts";
import type { HotPlugQueue } from "./hot-plug.ts";

/** What {@link LostInterfaces} works with. */
export interface LostInterfacesOptions extends Pick<HotPlugOptions, "hosts" | "conf"> {
  readonly engine: Pick<Engine, "inspect">;
  readonly nodePods: Pick<NodePods, "list">;
  readonly hotPlug: Pick<HotPlugQueue, "compareAll">;
  readonly logger: Logger;
}

/** Finds interfaces that have disappeared from running pods of this node (`heal`). */
export class LostInterfaces {
  readonly #options: LostInterfacesOptions;
  #count = 0;

  constructor(options: LostInterfacesOptions) {
    this.#options = options;
  }

  /** How many networks of this node's pods lack an interface. */
  get count(): number {
    return this.#count;
  }

  /** Call this regularly. Pods that cannot be looked into now are left for the next time. */
  async check(): Promise<void> {
    const { engine, nodePods, hotPlug, hosts, conf } = this.#options;
    let [count, willHeal] = [0, false];
    for (const pod of nodePods.list()) {
      const found = await engine.inspect(pod, { hosts, conf }).catch((error) => this.#skip(error));
      count += found?.lost ?? 0;
      willHeal ||= found?.willHeal ?? false;
    }
    this.#count = count;
    if (willHeal) await hotPlug.compareAll();
  }

  #skip(error: unknown): undefined {
    const isUsual = error instanceof SandboxUnavailableError || error instanceof HostGoneError;
    if (!isUsual) this.#options.logger.warn({ err: error }, "cannot look for lost interfaces");
  }
}
