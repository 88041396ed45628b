import { type FileHandle, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { DamagedRecord, RecordStore } from "#engine/record-store.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import { syncDirectory, temporarySuffix } from "#lib/atomic-write.ts";
import { errorMessage } from "#lib/error-message.ts";
import { DelayedSync } from "./delayed-sync.ts";
import {
  damagedSuffix,
  fileStem,
  keysFromFileNames,
  planSuffix,
  recordSuffix,
} from "./file-names.ts";
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

const suffixes = [planSuffix, recordSuffix] as const;

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
    const temporary = (await readdir(dir)).filter((name) => name.endsWith(temporarySuffix));
    await Promise.all(temporary.map((name) => removeIfAbandoned(join(dir, name))));
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    const path = this.#path(key, recordSuffix);
    const bytes = await readIfPresent(path, "attachment record");
    return bytes === undefined ? undefined : parseRecord(bytes.toString(), { path, key });
  }

  async loadPlan(key: RecordKey): Promise<TeardownPlan | undefined> {
    const path = this.#path(key, planSuffix);
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
      this.#delayedSync.schedule(suffixes.map((suffix) => fileStem(record) + suffix));
    });
  }

  async flush(): Promise<void> {
    await this.#delayedSync.flush();
  }

  async remove(key: RecordKey): Promise<void> {
    this.#pods?.remove(key);
    await Promise.all(suffixes.map((suffix) => removeIfPresent(this.#path(key, suffix))));
  }

  async quarantine(key: RecordKey): Promise<void> {
    this.#pods?.remove(key);
    for (const suffix of suffixes) {
      const path = this.#path(key, suffix);
      await renameIfPresent(path, path + damagedSuffix);
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
    for (const key of keysFromFileNames(names)) {
      try {
        const record = await this.load(key);
        if (record !== undefined) records.push(record);
        else if (!names.has(fileStem(key) + recordSuffix)) damaged.push(this.#recordMissing(key));
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
    const replace = async (suffix: string, content: string | Uint8Array): Promise<FileHandle> =>
      open.use(await replaceFile(this.#path(record, suffix), content));
    try {
      const files = [
        replace(recordSuffix, formatRecord(record)),
        replace(planSuffix, formatPlan(record, plan)),
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
    const path = this.#path(key, planSuffix);
    return { ...key, reason: `teardown plan ${path} has no attachment record beside it` };
  }

  #path(key: RecordKey, suffix: string): string {
    return join(this.#dir, fileStem(key) + suffix);
  }
}
