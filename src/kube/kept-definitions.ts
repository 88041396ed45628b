import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { tryParseJson } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import type { ObjectFollower } from "#kube/watch/watch-cache.ts";
import { type Condition, found } from "#lib/condition.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { textIfUsable } from "#lib/files/read-file.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { type LiveGetter, refusalOf } from "./live-get.ts";
import { keyOf, keyOfObject, metadataOnly, nadOf } from "./objects.ts";

/** Files have whole blocks: so one limit bounds their number, too. */
const inBlocks = (bytes: number): number => Math.ceil(bytes / 4096) * 4096;

/** A definition that is kept, and that the API does not have. */
interface Missing {
  readonly manifest: JsonObject;
  /** Undefined if it is invalid. */
  readonly definition: NetworkAttachmentDefinition | undefined;
  isLost: boolean;
}

interface KeptDefinitionsOptions {
  readonly dir: string;
  readonly live: LiveGetter;
  readonly logger: Logger;
  /** Called when the first definition is lost. */
  readonly onLost?: (condition: Condition) => void;
}

/**
 * Keeps a file of each definition, as the API server last had it. Deleting their CRD deletes all
 * definitions: one is lost if the API does not have it, and its CRD is gone, is being deleted, or is
 * newer than the definition. Otherwise it was deleted itself, and its file is removed.
 */
export class KeptDefinitions implements ObjectFollower {
  readonly #options: KeptDefinitionsOptions;
  /** Of the files, in blocks, by `namespace/name`. */
  readonly #sizes = new Map<string, number>();
  /** Pending writes by `namespace/name`; undefined removes the file. */
  readonly #pending = new Map<string, string | undefined>();
  readonly #missing = new Map<string, Missing>();
  #hadLost = false;

  /** Reads the files when they are needed: {@link KeptDefinitions.open} is only for who writes them. */
  constructor(options: KeptDefinitionsOptions) {
    this.#options = options;
  }

  /** Never throws: without its files, everything else works. */
  static async open(options: KeptDefinitionsOptions): Promise<KeptDefinitions> {
    const kept = new KeptDefinitions(options);
    await kept.#open().catch((error: unknown) => {
      const fields = { dir: options.dir, error: errorMessage(error) };
      options.logger.warn(fields, "the kept definitions cannot be read");
    });
    return kept;
  }

  async #open(): Promise<void> {
    const { dir } = this.#options;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    for (const name of await readdir(dir)) {
      const path = join(dir, name);
      const key = keyOfFile(name);
      // What a crash has left of a write.
      if (targetOfTemporaryName(name) !== undefined) await rm(path, { force: true });
      else if (key !== undefined) this.#sizes.set(key, inBlocks((await stat(path)).size));
    }
  }

  delivered(key: string, object: JsonObject): void {
    this.#missing.delete(key);
    this.#pending.set(key, manifestText(object));
  }

  gone(key: string): void {
    const missing = this.#read(key);
    if (missing !== undefined) this.#missing.set(key, missing);
  }

  listed(keys: ReadonlySet<string>, isServed: boolean): void {
    for (const key of new Set([...this.#sizes.keys(), ...this.#pending.keys()]))
      if (!keys.has(key) && !this.#missing.has(key)) this.gone(key);
    if (!isServed) for (const each of this.#missing.values()) each.isLost = true;
    this.#tell();
  }

  /** Definitions that the API does not have, and that are not known to have been deleted. */
  missing(): NetworkAttachmentDefinition[] {
    return [...this.#missing.values()].flatMap(({ definition }) => definition ?? []);
  }

  /** The manifests of the lost ones, by `namespace/name`. */
  lostManifests(): ReadonlyMap<string, JsonObject> {
    const lost = [...this.#missing].filter(([, { isLost }]) => isLost);
    return new Map(lost.map(([key, { manifest }]) => [key, manifest]));
  }

  /** Gives the lost ones up. */
  async discardLost(): Promise<void> {
    for (const key of this.lostManifests().keys()) this.#forget(key);
    await this.settle();
  }

  /**
   * A definition that the API does not have, if it is lost.
   * @throws CniError 7 when it is invalid, 11 when the API server does not answer in time
   */
  async lost(
    nad: ObjectName,
    signal?: AbortSignal,
  ): Promise<NetworkAttachmentDefinition | undefined> {
    const key = keyOf(nad);
    const missing = this.#missing.get(key) ?? this.#read(key);
    if (missing === undefined) return undefined;
    const isLost = missing.isLost || isOfOtherCrd(missing.manifest, await this.#readCrd(signal));
    return isLost ? (missing.definition ?? nadOf(missing.manifest)) : undefined;
  }

  /**
   * Finds out which of the missing definitions are lost, and writes what has changed. Call it
   * regularly. @throws CniError as above; Error for what could not be written
   */
  async settle(): Promise<void> {
    try {
      await this.#judge();
      this.#tell();
    } finally {
      await this.#writeAll();
    }
  }

  async #writeAll(): Promise<void> {
    const problems: unknown[] = [];
    for (const [key, text] of [...this.#pending]) {
      await this.#write(key, text).catch((error: unknown) => problems.push(error));
      if (this.#pending.get(key) === text) this.#pending.delete(key);
    }
    if (problems.length > 0) throw problems[0];
  }

  /** A file that is not as the API has it would later pass for an older definition. */
  async #write(key: string, text: string | undefined): Promise<void> {
    const path = this.#pathOf(key);
    try {
      if (text !== undefined && (await ifPresent(readFile(path, "utf8"))) === text) return;
      this.#sizes.delete(key);
      if (text === undefined) return await rm(path, { force: true });
      const size = inBlocks(Buffer.byteLength(text));
      const sum = [...this.#sizes.values()].reduce((total, each) => total + each, size);
      checkLimit(limits.keptDefinitions, sum, `not kept: with ${key}, what is kept`);
      await atomicWrite(path, text);
      this.#sizes.set(key, size);
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  }

  async #judge(): Promise<void> {
    const missing = [...this.#missing].filter(([, { isLost }]) => !isLost);
    if (missing.length === 0) return;
    const crd = await this.#readCrd();
    for (const [key, each] of missing) {
      if (this.#missing.get(key) !== each) continue;
      if (isOfOtherCrd(each.manifest, crd)) each.isLost = true;
      else this.#forget(key);
    }
  }

  /** Undefined when it does not exist. Without the permission, it passes for one that stays. */
  async #readCrd(signal?: AbortSignal): Promise<JsonObject | undefined> {
    const object = "the CustomResourceDefinition of NetworkAttachmentDefinitions";
    const { live, logger } = this.#options;
    try {
      return await live.get({ object, path: apiPaths.nadCrd, accept: metadataOnly }, signal);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === undefined) throw error;
      logger.warn({ error: refusal.message }, "definitions count as deleted, not as lost");
      return {};
    }
  }

  #forget(key: string): void {
    this.#missing.delete(key);
    this.#pending.set(key, undefined);
  }

  #tell(): void {
    const names = [...this.lostManifests().keys()];
    if (names.length > 0 && !this.#hadLost) this.#options.onLost?.(lostCondition(names));
    this.#hadLost = names.length > 0;
  }

  #pathOf(key: string): string {
    return join(this.#options.dir, `${encodeURIComponent(key)}.json`);
  }

  /** What is kept of a definition; undefined if it is nothing that can be used. */
  #read(key: string): Missing | undefined {
    const file = this.#pathOf(key);
    const isPending = this.#pending.has(key);
    const text = isPending ? this.#pending.get(key) : textIfUsable(file, "none");
    if (text === undefined) return undefined;
    const manifest = objectOf(tryParseJson(text));
    if (keyOfObject(manifest) === key && createdAt(manifest) > 0)
      return { manifest, definition: ifValid(manifest), isLost: false };
    this.#options.logger.warn({ file }, "a kept definition is damaged, and is removed");
    this.#forget(key);
    return undefined;
  }
}

/** That definitions were lost, and what to do. */
export function lostCondition(names: readonly string[]): Condition {
  const more = names.length > namedMax ? `, and ${names.length - namedMax} more` : "";
  const named = `${names.slice(0, namedMax).join(", ")}${more}`;
  return found(
    "DefinitionsLost",
    `deleted with their CRD: ${names.length} NetworkAttachmentDefinitions (${named}); pods of this node still get these networks`,
    "run kubectl plexus restore",
  );
}

const namedMax = 5;

/** Whether the definition is of a CRD before this one, or of one that is being deleted. */
function isOfOtherCrd(manifest: JsonObject, crd: JsonObject | undefined): boolean {
  if (crd === undefined) return true;
  const isDeleted = objectOf(crd.metadata).deletionTimestamp !== undefined;
  return isDeleted || createdAt(manifest) < createdAt(crd);
}

/** NaN if that is not known. */
function createdAt({ metadata }: JsonObject): number {
  return Date.parse(String(objectOf(metadata).creationTimestamp));
}

/** What `kubectl create` needs, and the time of the creation, which the API server then replaces. */
function manifestText({ metadata, spec }: JsonObject): string {
  const { namespace, name, labels, annotations, creationTimestamp } = objectOf(metadata);
  return JSON.stringify({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace, name, labels, annotations, creationTimestamp },
    spec,
  });
}

function ifValid(manifest: JsonObject): NetworkAttachmentDefinition | undefined {
  try {
    return nadOf(manifest);
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}

/** The key of a file; undefined for other files. */
export function keyOfFile(name: string): string | undefined {
  const [, namespace, definition] = /^([\w-]{1,63})%2F([\w.-]+)\.json$/.exec(name) ?? [];
  return namespace && `${namespace}/${definition}`;
}
