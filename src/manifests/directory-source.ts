import { type FSWatcher, watch } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { ClusterSource, Logger, Pod, PodIdentity } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { type ManifestObjects, parseManifestFile } from "./documents.ts";

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
  readonly #dir: string;
  readonly #logger: Logger;
  readonly #files = new Map<string, LoadedFile>();
  #watcher: FSWatcher | undefined;
  #inode: number | undefined;
  #isClosed = false;
  #dirty = true;
  #unreadable: string | undefined;
  #loading: Promise<void> | undefined;

  private constructor(dir: string, logger: Logger) {
    this.#dir = dir;
    this.#logger = logger;
  }

  /** @throws CniError 5 when the directory cannot be read */
  static async open(dir: string, logger: Logger): Promise<ManifestDirectory> {
    const source = new ManifestDirectory(dir, logger);
    try {
      await source.#reload();
    } catch (error) {
      source.#unwatch();
      throw new CniError(CniErrorCode.IoFailure, `cannot read the manifests directory ${dir}`, {
        cause: error,
      });
    }
    return source;
  }

  async getPod(identity: PodIdentity): Promise<Pod | undefined> {
    const pod = await this.#find((objects) => objects.pods, identity);
    if (pod === undefined) return undefined;
    if (pod.uid === "") return { ...pod, uid: identity.uid ?? "" };
    return identity.uid === undefined || identity.uid === pod.uid ? pod : undefined;
  }

  /** Manifests contain only a pod's metadata, and no more is kept. */
  async getPodObject(): Promise<undefined> {
    return undefined;
  }

  getNad(ref: {
    namespace: string;
    name: string;
  }): Promise<NetworkAttachmentDefinition | undefined> {
    return this.#find((objects) => objects.nads, ref);
  }

  notReadyReason(): string | undefined {
    const ofFiles = [...this.#files.values()].flatMap((file) => file.problem ?? []);
    const problems = [...(this.#unreadable === undefined ? [] : [this.#unreadable]), ...ofFiles];
    return problems.length === 0 ? undefined : `manifests: ${problems.join("; ")}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#unwatch();
    await this.#loading?.catch(() => undefined);
  }

  async #find<T extends { namespace: string; name: string }>(
    kind: (objects: ManifestObjects) => readonly T[],
    ref: { namespace: string; name: string },
  ): Promise<T | undefined> {
    if (this.#dirty || this.#watcher === undefined) await this.#reload();
    const known = this.#lookUp(kind, ref);
    if (known !== undefined) return known;
    await this.#reload();
    return this.#lookUp(kind, ref);
  }

  #lookUp<T extends { namespace: string; name: string }>(
    kind: (objects: ManifestObjects) => readonly T[],
    ref: { namespace: string; name: string },
  ): T | undefined {
    return [...this.#files.values()]
      .flatMap((file) => kind(file.objects))
      .find((object) => object.namespace === ref.namespace && object.name === ref.name);
  }

  /** One scan at a time: later callers wait for a scan that starts after their call. */
  async #reload(): Promise<void> {
    await this.#loading?.catch(() => undefined);
    this.#loading ??= this.#scan().finally(() => {
      this.#loading = undefined;
    });
    await this.#loading;
  }

  async #scan(): Promise<void> {
    this.#dirty = false;
    try {
      await this.#watch();
      const names = (await readdir(this.#dir))
        .filter((n) => /^[^.].*\.(ya?ml|json)$/.test(n))
        .sort();
      for (const gone of this.#files.keys()) if (!names.includes(gone)) this.#files.delete(gone);
      for (const name of names) await this.#load(name);
      this.#unreadable = undefined;
    } catch (cause) {
      this.#dirty = true;
      this.#unreadable = `cannot read the directory ${this.#dir}: ${errorMessage(cause)}`;
      throw new CniError(CniErrorCode.TryAgainLater, `manifests: ${this.#unreadable}`, { cause });
    }
  }

  /** Watches the directory at the path. Without a watch, every lookup scans it again. */
  async #watch(): Promise<void> {
    const { ino } = await stat(this.#dir);
    if (this.#isClosed || (this.#watcher !== undefined && ino === this.#inode)) return;
    this.#unwatch();
    try {
      this.#watcher = watch(this.#dir, { persistent: false }, (_event, name) => {
        // Plexus writes `.status` in the same directory.
        if (name?.startsWith(".") !== true) this.#dirty = true;
      });
      this.#watcher.on("error", () => this.#unwatch());
      this.#inode = ino;
    } catch (error) {
      this.#logger.warn(
        { err: error, dir: this.#dir },
        "manifests: no watch, every call reads the directory",
      );
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  async #load(name: string): Promise<void> {
    const path = join(this.#dir, name);
    const before = this.#files.get(name);
    try {
      const { mtimeMs, size, ino } = await stat(path);
      const version = `${mtimeMs}/${size}/${ino}`;
      if (before?.version === version) return;
      this.#files.set(
        name,
        this.#parse({ name, version, text: await readFile(path, "utf8"), before }),
      );
    } catch (error) {
      if (isAbsent(error)) this.#files.delete(name);
      else
        this.#files.set(
          name,
          this.#withProblem({ version: "", before, error: unreadable(name, error) }),
        );
    }
  }

  #parse(file: {
    name: string;
    version: string;
    text: string;
    before: LoadedFile | undefined;
  }): LoadedFile {
    try {
      return { version: file.version, objects: parseManifestFile(file.text, file.name) };
    } catch (error) {
      return this.#withProblem({ ...file, error });
    }
  }

  /** The last good content with the new error, which is logged when it changes. */
  #withProblem(file: {
    version: string;
    before: LoadedFile | undefined;
    error: unknown;
  }): LoadedFile {
    const { version, before, error } = file;
    const problem = errorMessage(error);
    if (problem !== before?.problem)
      this.#logger.error({ dir: this.#dir }, `manifests: ${problem}`);
    return { version, objects: before?.objects ?? { pods: [], nads: [] }, problem };
  }
}

function unreadable(name: string, cause: unknown): Error {
  return new Error(`${name}: cannot be read: ${errorMessage(cause)}`, { cause });
}
