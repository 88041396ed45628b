import { mkdir, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  type ComparedPod,
  type Pod,
  type PodName,
  type StatusFailure,
  type StatusPublisher,
  statusFailure,
  type WantedStatus,
} from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";

/** Writes the network-status value of each pod to `<dir>/.status/<namespace>/<pod>.json`. */
export class StatusFiles implements StatusPublisher {
  readonly #dir: string;
  readonly #logger: Logger;
  /** One write at a time for a pod. */
  readonly #turns = new KeyedMutex();
  #wanted: WantedStatus = async () => undefined;

  constructor(manifestsDir: string, logger: Logger) {
    this.#dir = join(manifestsDir, ".status");
    this.#logger = logger;
  }

  follow(wanted: WantedStatus): void {
    this.#wanted = wanted;
  }

  changed(pod: Pod): void {
    void this.#compare(pod);
  }

  shown(pod: Pod, _: AbortSignal, own?: RecordKey): Promise<StatusFailure | undefined> {
    return this.#compare(pod, own);
  }

  async detached(pod: ComparedPod): Promise<void> {
    await this.#compare(pod);
  }

  failures(): ReadonlyMap<string, StatusFailure> {
    return new Map();
  }

  /**
   * Writes what the records want at its turn, or removes it. Not synced: after a crash of the
   * machine the pod is a new one.
   */
  async #compare(pod: ComparedPod, own?: RecordKey): Promise<StatusFailure | undefined> {
    const path = this.#path(pod);
    if (path === undefined) return undefined;
    using _turn = await this.#turns.acquire(path);
    try {
      const value = await this.#wanted(pod, own);
      if (value === undefined) await remove(path);
      else {
        await mkdir(dirname(path), { recursive: true, mode: 0o755 });
        await swapIn(path, value, { mode: 0o644 });
      }
      return undefined;
    } catch (err) {
      this.#logger.error({ err, path }, "manifests: the network-status could not be changed");
      return statusFailure(err);
    }
  }

  /** Undefined for an invalid pod name: DEL takes it unchecked from CNI_ARGS. */
  #path(pod: PodName): string | undefined {
    const problem = dnsLabelProblem(pod.namespace) ?? dnsSubdomainProblem(pod.name);
    return problem === undefined ? join(this.#dir, pod.namespace, `${pod.name}.json`) : undefined;
  }
}

/** Removes a file, and what processes that were killed left of it. */
async function remove(path: string): Promise<void> {
  const dir = dirname(path);
  const names = (await ifPresent(readdir(dir))) ?? [];
  const isOfFile = (name: string): boolean =>
    [name, targetOfTemporaryName(name)].includes(basename(path));
  const found = names.filter(isOfFile);
  await Promise.all(found.map((name) => rm(join(dir, name), { force: true })));
}
