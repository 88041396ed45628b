import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { CalledPod, ClusterSource, Pod } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { NextRun } from "#lib/concurrency/next-run.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { type DirectoryWatch, watchDirectory } from "#lib/files/watch-directory.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { ManifestError, type ManifestObjects, parseManifestFile } from "./documents.ts";

type Name = Pick<Pod, "namespace" | "name">;

interface LoadedFile {
  /** Changes with the content: modification time, size and inode. */
  readonly version: string;
  readonly objects: ManifestObjects;
  /** Why the newest content is unusable; `objects` are then the last good ones. */
  readonly problem?: string;
}

/**
 * Pods and definitions from a watched directory of `*.yaml`, `*.yml` and `*.json` files. An unknown
 * object triggers a new scan, so a file counts as soon as it exists. A file that becomes invalid
 * keeps its last good content, is logged once, and makes the source not ready until it is fixed.
 */
export class ManifestDirectory implements ClusterSource, AsyncDisposable {
  readonly namesContainers = true;
  readonly #dir: string;
  readonly #logger: Logger;
  readonly #files = new Map<string, LoadedFile>();
  /** One scan at a time: a caller waits for a scan that starts after its call. */
  readonly #scans = new NextRun(() => this.#scan());
  #watch: DirectoryWatch | undefined;
  #dirty = true;
  #unreadable: string | undefined;

  private constructor(dir: string, logger: Logger) {
    this.#dir = dir;
    this.#logger = logger;
  }

  /** @throws CniError 5 when the directory cannot be read */
  static async open(dir: string, logger: Logger): Promise<ManifestDirectory> {
    const source = new ManifestDirectory(dir, logger);
    try {
      await source.#startWatch();
      await source.#scans.run();
    } catch (error) {
      source.#watch?.close();
      const message = `cannot read the manifests directory ${dir}: ${errorMessage(error)}`;
      throw new CniError("IoFailure", message, { cause: error });
    }
    return source;
  }

  async getPod(identity: CalledPod): Promise<Pod | undefined> {
    const pod = await this.#find((objects) => objects.pods, identity);
    if (pod === undefined) return undefined;
    if (pod.uid === "") return { ...pod, uid: identity.uid ?? "" };
    return identity.uid === undefined || identity.uid === pod.uid ? pod : undefined;
  }

  /** Manifests contain only a pod's metadata, and no more is kept. */
  async getPodObject(): Promise<undefined> {
    return undefined;
  }

  getNad(ref: Name): Promise<NetworkAttachmentDefinition | undefined> {
    return this.#find((objects) => objects.nads, ref);
  }

  knownNads(): NetworkAttachmentDefinition[] {
    return [...this.#files.values()].flatMap((file) => file.objects.nads);
  }

  notReadyReason(): string | undefined {
    const ofFiles = [...this.#files.values()].map(({ problem }) => problem);
    const problems = [this.#unreadable, ...ofFiles].filter((each) => each !== undefined);
    return problems.length === 0 ? undefined : `manifests: ${problems.join("; ")}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch?.close();
  }

  async #find<T extends Name>(
    kind: (objects: ManifestObjects) => readonly T[],
    ref: Name,
  ): Promise<T | undefined> {
    const lookUp = (): T | undefined =>
      [...this.#files.values()]
        .flatMap((file) => kind(file.objects))
        .find(({ namespace, name }) => namespace === ref.namespace && name === ref.name);
    if (this.#dirty || this.#watch?.isActive !== true) await this.#scans.run();
    const known = lookUp();
    if (known !== undefined) return known;
    await this.#scans.run();
    return lookUp();
  }

  async #scan(): Promise<void> {
    this.#dirty = false;
    try {
      await this.#watch?.rearm();
      const names = (await readdir(this.#dir))
        .filter((n) => /^[^.].*\.(ya?ml|json)$/.test(n))
        .sort();
      for (const gone of this.#files.keys()) if (!names.includes(gone)) this.#files.delete(gone);
      for (const name of names) await this.#load(name);
      this.#unreadable = undefined;
    } catch (cause) {
      this.#dirty = true;
      this.#unreadable = `cannot read the directory ${this.#dir}: ${errorMessage(cause)}`;
      throw new CniError("TryAgainLater", `manifests: ${this.#unreadable}`, { cause });
    }
  }

  /** Without a watch, every lookup scans the directory again. */
  async #startWatch(): Promise<void> {
    const onEvent = (name: string | null): void => {
      // Plexus writes `.status` in the same directory.
      if (name?.startsWith(".") !== true) this.#dirty = true;
    };
    this.#watch = await watchDirectory(this.#dir, onEvent, (error) => {
      const message = "manifests: no watch, every call reads the directory";
      this.#logger.warn({ err: error, dir: this.#dir }, message);
    });
  }

  /** An invalid file keeps the last good content; its error is logged when it changes. */
  async #load(name: string): Promise<void> {
    const path = join(this.#dir, name);
    const before = this.#files.get(name);
    // Until it is read: a file that cannot be read is tried again.
    let version = "";
    try {
      // Not the time of the content: tools set that.
      const { ctimeMs, size, ino } = await stat(path);
      // Where times have whole seconds, as on ext3, another content can have the same.
      const found = ctimeMs % 1000 === 0 ? "" : `${ctimeMs}/${size}/${ino}`;
      if (found !== "" && before?.version === found) return;
      const text = await readFile(path, "utf8");
      version = found;
      this.#files.set(name, { version, objects: parseManifestFile(text, name) });
    } catch (error) {
      if (isAbsent(error)) return void this.#files.delete(name);
      const reason = errorMessage(error);
      const problem =
        error instanceof ManifestError ? reason : `${name}: cannot be read: ${reason}`;
      if (problem !== before?.problem)
        this.#logger.error({ dir: this.#dir }, `manifests: ${problem}`);
      const objects = before?.objects ?? { pods: [], nads: [] };
      this.#files.set(name, { version, objects, problem });
    }
  }
}
