import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { DamagedRecord, RecordStore } from "#engine/record-store.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { errorMessage } from "#lib/error-message.ts";
import { syncDirectory } from "#lib/files/atomic-write.ts";
import {
  damagedFileName,
  latestFileName,
  planFileName,
  recordFileName,
  tombstoneFileName,
} from "#lib/files/state-files.ts";
import { DelayedSync } from "./delayed-sync.ts";
import { readLatest } from "./latest.ts";
import { formatPlan, parsePlan } from "./plan-file.ts";
import { PodIndex } from "./pod-index.ts";
import { formatRecord, parseRecord } from "./record-file.ts";
import { sandboxInterfaces } from "./sandbox-interfaces.ts";
import {
  ignoreAbsent,
  makeEmpty,
  removeIfPresent,
  renameIfPresent,
  replaceFiles,
  statIfPresent,
} from "./state-file.ts";
import { sweepStateDirectory } from "./sweep.ts";

/**
 * Records and teardown plans as files of one directory: `<containerID>@<ifName>.json` and
 * `.teardown`, each with an update beside it (`.latest`) until that is durable, and a tombstone
 * (`.detached`) in the end. The key can be read back from the name, as `@` cannot occur in a container ID.
 */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;
  /** By the record's name: nobody replaces files of a sandbox interface while they are made durable. */
  readonly #writing = new KeyedMutex();
  readonly #delayedSync: DelayedSync;
  /** Read from the files when it is first needed. */
  #pods: PodIndex | undefined;

  private constructor(dir: string) {
    this.#dir = dir;
    this.#delayedSync = new DelayedSync({ dir, writing: this.#writing });
  }

  /** Opens the state directory, and creates it (mode 0700) where it does not exist. */
  static async open(dir: string): Promise<FileRecordStore> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    return readLatest(this.#path(recordFileName(key)), {
      description: "attachment record",
      parse: (bytes, path) => parseRecord(bytes.toString(), { path, key }),
    });
  }

  async loadPlan(key: RecordKey): Promise<TeardownPlan | undefined> {
    return readLatest(this.#path(planFileName(key)), {
      description: "teardown plan",
      parse: (bytes, path) => parsePlan(bytes, { path, key }),
    });
  }

  async create(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const [recordName, planName] = [recordFileName(record), planFileName(record)];
    const outdated = [recordName, planName].map(latestFileName);
    await this.#change(record, "write", async () => {
      await this.#remove([...outdated, tombstoneFileName(record)]);
      await using files = new AsyncDisposableStack();
      const handles = await replaceFiles([
        { path: this.#path(recordName), content: formatRecord(record) },
        { path: this.#path(planName), content: formatPlan(record, plan) },
      ]);
      for (const handle of handles) files.use(handle);
      await Promise.all([...handles.map((handle) => handle.sync()), syncDirectory(this.#dir)]);
    });
    this.#pods?.add(record);
  }

  async update(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const [recordName, planName] = [recordFileName(record), planFileName(record)];
    await this.#change(record, "write", async () => {
      const handles = await replaceFiles([
        { path: this.#path(latestFileName(recordName)), content: formatRecord(record) },
        { path: this.#path(latestFileName(planName)), content: formatPlan(record, plan) },
      ]);
      await Promise.all(handles.map((handle) => handle.close()));
      if (!(await this.hasTombstone(record))) return;
      await this.#remove([recordName, planName].map(latestFileName));
      throw new Error("the sandbox was detached meanwhile");
    });
    this.#delayedSync.schedule(record);
  }

  async flush(): Promise<void> {
    await this.#delayedSync.flush();
  }

  async finish(key: RecordKey): Promise<void> {
    const [recordName, planName] = [recordFileName(key), planFileName(key)];
    await this.#change(key, "remove", async () => {
      // As long as the plan is there, whoever finds it tears down again what is left.
      await this.#remove([latestFileName(recordName), recordName, latestFileName(planName)]);
      await this.#bury(planName, tombstoneFileName(key));
    });
    this.#pods?.remove(key);
  }

  async hasTombstone(key: RecordKey): Promise<boolean> {
    return (await statIfPresent(this.#path(tombstoneFileName(key)))) !== undefined;
  }

  async sweep(): Promise<void> {
    await sweepStateDirectory(this.#dir);
  }

  async quarantine(key: RecordKey): Promise<void> {
    using _turn = await this.#writing.acquire(recordFileName(key));
    this.#pods?.remove(key);
    const names = [planFileName(key), recordFileName(key)];
    for (const name of [...names.map(latestFileName), ...names]) {
      await renameIfPresent(this.#path(name), this.#path(damagedFileName(name)));
    }
  }

  async hasPod(pod: { readonly namespace: string; readonly name: string }): Promise<boolean> {
    this.#pods ??= new PodIndex((await this.list()).records);
    return this.#pods.has(pod);
  }

  async list(): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const [key, hasRecord] of sandboxInterfaces(await readdir(this.#dir))) {
      try {
        const record = await this.load(key);
        if (record !== undefined) records.push(record);
        else if (!hasRecord) damaged.push(this.#recordMissing(key));
      } catch (error) {
        damaged.push({ ...key, reason: errorMessage(error) });
      }
    }
    return { records, damaged };
  }

  /** @throws CniError 5 when the step fails */
  async #change(
    key: RecordKey,
    verb: "write" | "remove",
    step: () => Promise<void>,
  ): Promise<void> {
    using _turn = await this.#writing.acquire(recordFileName(key));
    try {
      await step();
    } catch (error) {
      throw new CniError(
        CniErrorCode.IoFailure,
        `cannot ${verb} the attachment record in ${this.#dir}: ${errorMessage(error)}`,
        { cause: error },
      );
    }
  }

  /** Makes the plan a tombstone; one that cannot be made where there was no plan is not needed. */
  async #bury(planName: string, tombstoneName: string): Promise<void> {
    const tombstone = this.#path(tombstoneName);
    const hadPlan = await rename(this.#path(planName), tombstone).then(() => true, ignoreAbsent);
    const emptied = makeEmpty(tombstone);
    await (hadPlan === true ? emptied : emptied.catch(() => undefined));
  }

  async #remove(names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => removeIfPresent(this.#path(name))));
  }

  #recordMissing(key: RecordKey): DamagedRecord {
    const path = this.#path(planFileName(key));
    return { ...key, reason: `teardown plan ${path} has no attachment record beside it` };
  }

  #path(name: string): string {
    return join(this.#dir, name);
  }
}
