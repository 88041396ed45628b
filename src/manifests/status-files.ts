import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Logger, PodReference, PublishOutcome, StatusPublisher } from "#engine/ports.ts";
import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Writes the network-status value of each pod to `<dir>/.status/<namespace>/<pod>.json`. */
export class StatusFiles implements StatusPublisher {
  readonly #dir: string;
  readonly #logger: Logger;

  constructor(manifestsDir: string, logger: Logger) {
    this.#dir = join(manifestsDir, ".status");
    this.#logger = logger;
  }

  async publish(
    pod: PodReference,
    annotations: Readonly<Record<string, string | null>>,
  ): Promise<PublishOutcome> {
    const value = annotations[networkStatusAnnotation];
    const path = this.#path(pod);
    if (path === undefined) return "settled";
    try {
      if (value === undefined || value === null) await rm(path, { force: true });
      else await this.#write(path, value);
      return "settled";
    } catch (error) {
      this.#logger.error(
        { err: error, path },
        "manifests: the network-status could not be written",
      );
      return "pending";
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
  }

  /** Not synced: after a crash of the machine the pod is a new one. */
  async #write(path: string, value: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    await swapIn(path, value, { mode: 0o644 });
  }

  /** Undefined for an invalid pod name: DEL takes it unchecked from CNI_ARGS. */
  #path(pod: { namespace: string; name: string }): string | undefined {
    const problem = dnsLabelProblem(pod.namespace) ?? dnsSubdomainProblem(pod.name);
    return problem === undefined ? join(this.#dir, pod.namespace, `${pod.name}.json`) : undefined;
  }
}
