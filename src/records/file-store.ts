import { type FileHandle, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { DamagedRecord, RecordStore } from "#engine/record-store.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import { syncDirectory } from "#lib/atomic-write.ts";
import { errorMessage } from "#lib/error-message.ts";
import {
  damagedFileName,
  parseStateFileName,
  planFileName,
  recordFileName,
} from "#lib/state-files.ts";
import { DelayedSync } from "./delayed-sync.ts";
import { formatPlan, parsePlan } from "./plan-file.ts";
import { PodIndex } from "./pod-index.ts";
import { formatRecord, parseRecord } from "./record-file.ts";
import {
  readIfPresent,
  removeIfAbandoned,
  removeIfPresent,
  renameIfPresent,
  replaceFile,
} from "./state-file.ts";

/**
 * Records and teardown plans as files of one directory: `<containerID>@<ifName>.json` and
 * `.teardown`. The key can be read back from the name, as `@` cannot occur in a container ID.
 */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;
  readonly #delayedSync: DelayedSync;
  /** Read from the files when it is first needed. */
  #pods: PodIndex | undefined;

  private constructor(dir: string) {
    this.#dir = dir;
    this.#delayedSync = new DelayedSync(dir);
  }

  /** Opens the state directory: creates it (mode 0700) and removes what a crash left half-written. */
  static async open(dir: string): Promise<FileRecordStore> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const names = await readdir(dir);
    const temporary = names.filter((name) => parseStateFileName(name)?.kind === "temporary");
    await Promise.all(temporary.map((name) => removeIfAbandoned(join(dir, name))));
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    const path = this.#path(recordFileName(key));
    const bytes = await readIfPresent(path, "attachment record");
    return bytes === undefined ? undefined : parseRecord(bytes.toString(), { path, key });
  }

  async loadPlan(key: RecordKey): Promise<TeardownPlan | undefined> {
    const path = this.#path(planFileName(key));
    const bytes = await readIfPresent(path, "teardown plan");
    return bytes === undefined ? undefined : parsePlan(bytes, { path, key });
  }

  async create(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    await this.#write(record, plan, async (files) => {
      await Promise.all([...files.map((file) => file.sync()), syncDirectory(this.#dir)]);
    });
  }

  async update(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    await this.#write(record, plan, async () => {
      this.#delayedSync.schedule(fileNames(record));
    });
  }

  async flush(): Promise<void> {
    await this.#delayedSync.flush();
  }

  async hasTombstone(_key: RecordKey): Promise<boolean> {
    return false;
  }

  async sweep(): Promise<void> {}

  async finish(key: RecordKey): Promise<void> {
    this.#pods?.remove(key);
    await Promise.all(fileNames(key).map((name) => removeIfPresent(this.#path(name))));
  }

  async quarantine(key: RecordKey): Promise<void> {
    this.#pods?.remove(key);
    for (const name of fileNames(key)) {
      await renameIfPresent(this.#path(name), this.#path(damagedFileName(name)));
    }
  }

  async hasPod(pod: { readonly namespace: string; readonly name: string }): Promise<boolean> {
    this.#pods ??= new PodIndex((await this.list()).records);
    return this.#pods.has(pod);
  }

  async list(): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
    const names = new Set(await readdir(this.#dir));
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const key of keysOf(names)) {
      try {
        const record = await this.load(key);
        if (record !== undefined) records.push(record);
        else if (!names.has(recordFileName(key))) damaged.push(this.#recordMissing(key));
      } catch (error) {
        damaged.push({ ...key, reason: errorMessage(error) });
      }
    }
    return { records, damaged };
  }

  /** Replaces both files; `persist` says when they are to be durable. @throws CniError 5 */
  async #write(
    record: AttachmentRecord,
    plan: TeardownPlan,
    persist: (files: readonly FileHandle[]) => Promise<void>,
  ): Promise<void> {
    await using open = new AsyncDisposableStack();
    const replace = async (name: string, content: string | Uint8Array): Promise<FileHandle> =>
      open.use(await replaceFile(this.#path(name), content));
    try {
      const files = [
        replace(recordFileName(record), formatRecord(record)),
        replace(planFileName(record), formatPlan(record, plan)),
      ];
      await Promise.allSettled(files);
      await persist(await Promise.all(files));
    } catch (error) {
      throw new CniError(
        CniErrorCode.IoFailure,
        `cannot write the attachment record in ${this.#dir}: ${errorMessage(error)}`,
        { cause: error },
      );
    }
    this.#pods?.add(record);
  }

  #recordMissing(key: RecordKey): DamagedRecord {
    const path = this.#path(planFileName(key));
    return { ...key, reason: `teardown plan ${path} has no attachment record beside it` };
  }

  #path(name: string): string {
    return join(this.#dir, name);
  }
}

/** The files of a sandbox interface, in the order in which they are removed. */
function fileNames(key: RecordKey): string[] {
  return [planFileName(key), recordFileName(key)];
}

/** The sandbox interfaces that have a record or a plan among these files, sorted. */
function keysOf(names: Iterable<string>): RecordKey[] {
  const keys = new Map<string, RecordKey>();
  for (const name of names) {
    const file = parseStateFileName(name);
    if (file?.kind !== "record" && file?.kind !== "plan") continue;
    const { containerId, ifName } = file;
    keys.set(recordFileName(file), { containerId, ifName });
  }
  return [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
}
