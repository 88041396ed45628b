import { mkdir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Logger, Pod, StatusPublisher } from "#engine/ports.ts";
import { atomicWrite } from "#lib/atomic-write.ts";
import { networkStatusAnnotation } from "#npwg/selection.ts";

const plainName = /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/;
const maxWriteAttempts = 5;

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
    if (path === undefined) return;
    try {
      if (value === undefined || value === null) await rm(path, { force: true });
      else await write(path, value);
    } catch (error) {
      this.#logger.error(
        { err: error, path },
        "manifests: the network-status could not be written",
      );
    }
  }

  async withdraw(pod: { namespace: string; name: string }): Promise<void> {
    const path = this.#path(pod);
    if (path === undefined) return;
    try {
      await rm(path, { force: true });
    } catch (error) {
      this.#logger.error(
        { err: error, path },
        "manifests: the network-status could not be removed",
      );
    }
    for (const dir of [dirname(path), this.#dir]) await rmdir(dir).catch(() => undefined);
  }

  /** Undefined for what is no pod's name: on DEL it may be whatever CNI_ARGS say. */
  #path(pod: { namespace: string; name: string }): string | undefined {
    const isPlain = [pod.namespace, pod.name].every((name) => plainName.test(name));
    return isPlain ? join(this.#dir, pod.namespace, `${pod.name}.json`) : undefined;
  }
}

/** Repeated when the directory goes meanwhile: withdrawing a namespace's last status removes it. */
async function write(path: string, value: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    await mkdir(dirname(path), { recursive: true });
    try {
      return await atomicWrite(path, value, { mode: 0o644, syncDirectory: false });
    } catch (error) {
      const isGone = (error as NodeJS.ErrnoException).code === "ENOENT";
      if (!isGone || attempt === maxWriteAttempts) throw error;
    }
  }
}
