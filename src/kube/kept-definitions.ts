import { tryParseJson } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { limits } from "#cni/limits.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import type { ObjectFollower } from "#kube/watch/watch-cache.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { type Condition, found } from "#lib/condition.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { textIfUsable } from "#lib/files/read-file.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { type LiveGetter, refusalOf } from "./live-get.ts";
import { keyOf, keyOfObject, metadataOnly, nadOf } from "./objects.ts";

/** A definition as the API last had it. */
interface Kept {
  readonly manifest: JsonObject;
  /** `missing`: the API does not have it. `lost`: it was deleted with its CRD. */
  state: "present" | "missing" | "lost";
}

interface KeptDefinitionsOptions {
  readonly file: string;
  readonly live: LiveGetter;
  readonly logger: Logger;
  /** Called when the first definition is lost. */
  readonly onLost?: (condition: Condition) => void;
}

/**
 * Keeps all definitions in a file, as the API server last had them. Deleting their CRD deletes all
 * definitions: one is lost if the API does not have it, and its CRD is gone, is being deleted, or is
 * newer than the definition. Otherwise it was deleted itself, and is not kept any more.
 */
export class KeptDefinitions implements ObjectFollower {
  readonly #options: KeptDefinitionsOptions;
  /** By `namespace/name`. */
  readonly #kept: Map<string, Kept>;
  readonly #lock = new KeyedMutex();
  #isServed = false;
  #isWritten = true;
  #hadLost = false;

  /** Reads the file. Never throws: without it, everything else works. */
  constructor(options: KeptDefinitionsOptions) {
    this.#options = options;
    this.#kept = new Map(
      readManifests(options).flatMap((manifest) => {
        const key = keyOfObject(manifest);
        return key === undefined ? [] : [[key, { manifest, state: "present" }]];
      }),
    );
  }

  delivered(key: string, object: JsonObject): void {
    this.#kept.set(key, { manifest: manifestOf(object), state: "present" });
    this.#isWritten = false;
  }

  gone(key: string): void {
    const kept = this.#kept.get(key);
    if (kept?.state === "present") kept.state = "missing";
  }

  listed(keys: ReadonlySet<string>, isServed: boolean): void {
    this.#isServed = isServed;
    for (const key of this.#kept.keys()) if (!keys.has(key)) this.gone(key);
  }

  /** Definitions that the API does not have, and that are not known to have been deleted. */
  missing(): NetworkAttachmentDefinition[] {
    return [...this.#kept.values()].flatMap(({ manifest, state }) =>
      state === "present" ? [] : (ifValid(manifest) ?? []),
    );
  }

  /** The manifests of the lost ones, by `namespace/name`. */
  lostManifests(): ReadonlyMap<string, JsonObject> {
    const lost = [...this.#kept].filter(([, { state }]) => state === "lost");
    return new Map(lost.map(([key, { manifest }]) => [key, manifest]));
  }

  /** Gives the lost ones up. @throws as {@link settle} */
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
    const kept = this.#kept.get(keyOf(nad));
    if (kept === undefined) return undefined;
    const { manifest, state } = kept;
    const isLost = state === "lost" || (await this.#isOfOtherCrd(manifest, signal));
    return isLost ? nadOf(manifest) : undefined;
  }

  /** Without the permission to read the CRD, a call takes a definition for deleted. */
  async #isOfOtherCrd(manifest: JsonObject, signal?: AbortSignal): Promise<boolean> {
    try {
      return isOfOtherCrd(manifest, await this.#readCrd(signal));
    } catch (error) {
      if (refusalOf(error) === undefined) throw error;
      return false;
    }
  }

  /**
   * Finds out which of the missing definitions are lost, and writes what has changed. Call it
   * regularly. @throws CniError 11 when the CRD cannot be read; Error when the file cannot be written
   */
  async settle(): Promise<void> {
    using _lock = await this.#lock.acquire("");
    try {
      await this.#judge();
      this.#tell();
    } finally {
      await this.#write();
    }
  }

  /** The shortest fit first: a tenant's large ones push out no others. */
  async #write(): Promise<void> {
    if (this.#isWritten) return;
    this.#isWritten = true;
    const { file, logger } = this.#options;
    const manifests = [...this.#kept.values()].map(({ manifest }) => JSON.stringify(manifest));
    let bytes = 0;
    const fitting = manifests
      .toSorted((a, b) => a.length - b.length)
      .filter((text) => {
        bytes += Buffer.byteLength(text) + 2;
        return bytes <= limits.keptDefinitions.max;
      });
    const text = `[${fitting.join(",\n")}]`;
    const notKept = manifests.length - fitting.length;
    if (notKept > 0) logger.warn({ notKept, bytes }, "some definitions are too large to be kept");
    try {
      if (textIfUsable(file, "none") !== text) await atomicWrite(file, text);
    } catch (error) {
      this.#isWritten = false;
      throw error;
    }
  }

  async #judge(): Promise<void> {
    const missing = [...this.#kept].filter(([, { state }]) => state === "missing");
    if (missing.length === 0) return;
    const crd = await this.#readCrd();
    for (const [key, kept] of missing) {
      if (this.#kept.get(key) !== kept) continue;
      if (isOfOtherCrd(kept.manifest, crd)) kept.state = "lost";
      // One API server of several may not serve what it will serve again.
      else if (this.#isServed) this.#forget(key);
    }
  }

  /** Undefined when it does not exist. */
  #readCrd(signal?: AbortSignal): Promise<JsonObject | undefined> {
    const object = "the CustomResourceDefinition of NetworkAttachmentDefinitions";
    const request = { object, path: apiPaths.nadCrd, accept: metadataOnly };
    return this.#options.live.get(request, signal);
  }

  #forget(key: string): void {
    this.#kept.delete(key);
    this.#isWritten = false;
  }

  #tell(): void {
    const names = [...this.lostManifests().keys()];
    if (names.length > 0 && !this.#hadLost) this.#options.onLost?.(lostCondition(names));
    this.#hadLost = names.length > 0;
  }
}

function readManifests({ file, logger }: KeptDefinitionsOptions): JsonObject[] {
  const text = textIfUsable(file, "none");
  if (text === undefined) return [];
  const manifests = tryParseJson(text);
  if (manifests === undefined) logger.warn({ file }, "the kept definitions are damaged");
  return objectsOf(manifests);
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
function manifestOf({ metadata, spec }: JsonObject): JsonObject {
  const { namespace, name, labels, annotations, creationTimestamp } = objectOf(metadata);
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: omitUndefined({ namespace, name, labels, annotations, creationTimestamp }),
    spec: objectOf(spec),
  };
}

function ifValid(manifest: JsonObject): NetworkAttachmentDefinition | undefined {
  try {
    return nadOf(manifest);
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}
