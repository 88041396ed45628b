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

/** Gives the sandboxes of static pods the mirrors that the kubelet has made anew. */
export class MirrorPods {
  readonly #options: MirrorPodsOptions;
  /** By `namespace/name`: the UID of the mirror that the record has. */
  readonly #adopted = new Map<string, string>();

  constructor(options: MirrorPodsOptions) {
    this.#options = options;
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. Never rejects. */
  async podChanged(key: string, pod: Pod | undefined): Promise<void> {
    if (pod?.isStatic !== true) this.#adopted.delete(key);
    else if (this.#adopted.get(key) !== pod.uid) await this.#adopt(key, pod);
  }

  /** Call this regularly: a sandbox may have been in use. */
  async check(): Promise<void> {
    for (const pod of this.#options.nodePods.list()) {
      await this.podChanged(`${pod.namespace}/${pod.name}`, pod);
    }
  }

  async #adopt(key: string, pod: Pod): Promise<void> {
    const { engine, conf, logger } = this.#options;
    try {
      if (await engine.adoptMirror(pod, await conf())) this.#adopted.set(key, pod.uid);
    } catch (err) {
      const fields = { podNamespace: pod.namespace, podName: pod.name, err };
      logger.warn(fields, "cannot record the new mirror of a static pod");
    }
  }
}
