import { mkdir, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type {
  PodIdentity,
  PodName,
  PublishOptions,
  PublishOutcome,
  StatusPublisher,
} from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Writes the network-status value of each pod to `<dir>/.status/<namespace>/<pod>.json`. */
export class StatusFiles implements StatusPublisher {
  readonly #dir: string;
  readonly #logger: Logger;
  /** One write at a time for a pod, and the value that its last caller wants. */
  readonly #turns = new KeyedMutex();
  readonly #wanted = new Map<string, symbol>();

  constructor(manifestsDir: string, logger: Logger) {
    this.#dir = join(manifestsDir, ".status");
    this.#logger = logger;
  }

  async publish(
    pod: PodIdentity,
    annotations: Readonly<Record<string, string | null>>,
    options: PublishOptions = {},
  ): Promise<PublishOutcome> {
    const value = annotations[networkStatusAnnotation] ?? undefined;
    return (await this.#set(pod, { value, ...options })) ? "settled" : "pending";
  }

  async withdraw(
    pod: PodName,
    { unless }: { readonly unless?: () => Promise<boolean> } = {},
  ): Promise<void> {
    if ((await unless?.()) === true) return;
    await this.#set(pod, { value: undefined });
  }

  /** Sets the value unless a later call for the pod decides. @returns whether it succeeded */
  async #set(
    pod: PodName,
    { value, isCurrent }: PublishOptions & { readonly value: string | undefined },
  ): Promise<boolean> {
    const path = this.#path(pod);
    if (path === undefined) return true;
    const turn = Symbol();
    this.#wanted.set(path, turn);
    using _turn = await this.#turns.acquire(path);
    if (this.#wanted.get(path) !== turn) return true;
    this.#wanted.delete(path);
    if ((await isCurrent?.()) === false) return false;
    return await this.#write(path, value);
  }

  /** Not synced: after a crash of the machine the pod is a new one. */
  async #write(path: string, value: string | undefined): Promise<boolean> {
    try {
      if (value === undefined) await remove(path);
      else {
        await mkdir(dirname(path), { recursive: true, mode: 0o755 });
        await swapIn(path, value, { mode: 0o644 });
      }
      return true;
    } catch (error) {
      const aim = value === undefined ? "removed" : "written";
      const message = `manifests: the network-status could not be ${aim}`;
      this.#logger.error({ err: error, path }, message);
      return false;
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
