import { mkdir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Logger, Pod, StatusPublisher } from "#engine/ports.ts";
import { atomicWrite } from "#lib/atomic-write.ts";
import { networkStatusAnnotation } from "#npwg/selection.ts";

/** Writes the network-status value of each pod to `<dir>/.status/<namespace>/<pod>.json`. */
export class StatusFiles implements StatusPublisher {
  readonly #dir: string;
  readonly #logger: Logger;

  constructor(manifestsDir: string, logger: Logger) {
    this.#dir = join(manifestsDir, ".status");
    this.#logger = logger;
  }

  async publish(pod: Pod, annotations: Readonly<Record<string, string | null>>): Promise<void> {
    const value = annotations[networkStatusAnnotation];
    const path = this.#path(pod);
    try {
      if (value === undefined || value === null) return await rm(path, { force: true });
      await mkdir(dirname(path), { recursive: true });
      await atomicWrite(path, value, { mode: 0o644, syncDirectory: false });
    } catch (error) {
      this.#logger.error({ err: error, path }, "manifests: the network-status could not be written");
    }
  }

  async withdraw(pod: { namespace: string; name: string }): Promise<void> {
    const path = this.#path(pod);
    await rm(path, { force: true });
    for (const dir of [dirname(path), this.#dir]) await rmdir(dir).catch(() => undefined);
  }

  #path(pod: { namespace: string; name: string }): string {
    return join(this.#dir, pod.namespace, `${pod.name}.json`);
  }
}
