import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { CalledPod, ClusterSource, Pod } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { readTextFile } from "#lib/files/read-file.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { ManifestError, type ManifestObjects, parseManifestFile } from "./documents.ts";

type Name = Pick<Pod, "namespace" | "name">;

interface LoadedFile {
  /** Changes with the content: time of change, size, and the file that links lead to. */
  readonly version: string;
  readonly objects: ManifestObjects;
  /** Why the newest content is unusable; `objects` are then the last good ones. */
  readonly problem?: string;
}

/**
 * Pods and definitions from a directory of `*.yaml`, `*.yml` and `*.json` files. Every lookup reads
 * what has changed: a watch would miss changes behind links, and a status takes microseconds. A file
 * that becomes invalid keeps its last good content, is logged once, and makes the source not ready
 * until it is fixed.
 */
export class ManifestDirectory implements ClusterSource {
  readonly #dir: string;
  readonly #logger: Logger;
  readonly #files = new Map<string, LoadedFile>();
  #unreadable: string | undefined;

  private constructor(dir: string, logger: Logger) {
    this.#dir = dir;
    this.#logger = logger;
  }

  /** @throws CniError 5 when the directory cannot be read */
  static open(dir: string, logger: Logger): ManifestDirectory {
    const source = new ManifestDirectory(dir, logger);
    source.#scan();
    if (source.#unreadable === undefined) return source;
    throw new CniError("IoFailure", `manifests: ${source.#unreadable}`);
  }

  async getPod(identity: CalledPod): Promise<Pod | undefined> {
    const pod = this.#find((objects) => objects.pods, identity);
    if (pod === undefined) return undefined;
    if (pod.uid === "") return { ...pod, uid: identity.uid ?? "" };
    return identity.uid === undefined || identity.uid === pod.uid ? pod : undefined;
  }

  /** Manifests contain only a pod's metadata, and no more is kept. */
  async getPodObject(): Promise<undefined> {
    return undefined;
  }

  /** @throws CniError 11 also if a file is invalid, which may have the definition */
  async getNad(ref: Name): Promise<NetworkAttachmentDefinition | undefined> {
    const found = this.#find((objects) => objects.nads, ref);
    const problem = found === undefined ? this.notReadyReason() : undefined;
    if (problem === undefined) return found;
    const name = `NetworkAttachmentDefinition ${ref.namespace}/${ref.name}`;
    throw new CniError("TryAgainLater", `no valid file has ${name}; ${problem}`);
  }

  /** Manifests have no namespaces. */
  async namespaceMatches(): Promise<boolean> {
    return false;
  }

  knownNads(): NetworkAttachmentDefinition[] {
    return [...this.#files.values()].flatMap((file) => file.objects.nads);
  }

  notReadyReason(): string | undefined {
    this.#scan();
    const ofFiles = [...this.#files.values()].map(({ problem }) => problem);
    const problems = [this.#unreadable, ...ofFiles].filter((each) => each !== undefined);
    return problems.length === 0 ? undefined : `manifests: ${problems.join("; ")}`;
  }

  #find<T extends Name>(
    kind: (objects: ManifestObjects) => readonly T[],
    ref: Name,
  ): T | undefined {
    this.#scan();
    if (this.#unreadable !== undefined)
      throw new CniError("TryAgainLater", `manifests: ${this.#unreadable}`);
    return [...this.#files.values()]
      .flatMap((file) => kind(file.objects))
      .find(({ namespace, name }) => namespace === ref.namespace && name === ref.name);
  }

  #scan(): void {
    try {
      const found = readdirSync(this.#dir).filter((n) => /^[^.].*\.(ya?ml|json)$/.test(n));
      const names = new Set(found.sort());
      for (const known of this.#files.keys()) if (!names.has(known)) this.#files.delete(known);
      for (const name of names) this.#load(name);
      this.#unreadable = undefined;
    } catch (error) {
      this.#unreadable = `cannot read the directory ${this.#dir}: ${errorMessage(error)}`;
    }
  }

  /** An invalid file keeps the last good content; its error is logged when it changes. */
  #load(name: string): void {
    const path = join(this.#dir, name);
    const before = this.#files.get(name);
    // Until it is read: a file that cannot be read is tried again.
    let version = "";
    try {
      // Not the time of the content: tools set that.
      const { ctimeMs, size, dev, ino } = statSync(path);
      // Where times have whole seconds, as on ext3, another content can have the same.
      const found = ctimeMs % 1000 === 0 ? "" : `${ctimeMs}/${size}/${dev}/${ino}`;
      if (found !== "" && before?.version === found) return;
      const text = readTextFile(path, "any");
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
