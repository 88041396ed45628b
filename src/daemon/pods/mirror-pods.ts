import type { Engine } from "#engine/engine.ts";
import type { HotPlugOptions } from "#engine/hotplug/running-sandboxes.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { NodePods } from "#kube/node/node.ts";

interface MirrorPodsOptions extends Pick<HotPlugOptions, "conf"> {
  readonly engine: Pick<Engine, "adoptMirror">;
  readonly nodePods: Pick<NodePods, "list">;
  readonly logger: Logger;
}

/** Gives the sandboxes of static pods the mirrors that the kubelet has made since their ADD. */
export class MirrorPods {
  readonly #options: MirrorPodsOptions;

  constructor(options: MirrorPodsOptions) {
    this.#options = options;
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. Never rejects. */
  async podChanged(pod: Pod | undefined): Promise<void> {
    if (pod?.isStatic === true) await this.#adopt(pod);
  }

  /** Call this regularly: a sandbox may have been in use, or attached when its mirror was not known. */
  async check(): Promise<void> {
    for (const pod of this.#options.nodePods.list()) await this.podChanged(pod);
  }

  async #adopt(pod: Pod): Promise<void> {
    const { engine, conf, logger } = this.#options;
    try {
      await engine.adoptMirror(pod, await conf());
    } catch (err) {
      const fields = { podNamespace: pod.namespace, podName: pod.name, err };
      logger.warn(fields, "cannot record the new mirror of a static pod");
    }
  }
}
