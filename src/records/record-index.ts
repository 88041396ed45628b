import { lstatSync, type Stats } from "node:fs";
import { join } from "node:path";
import type { DamagedRecord, RecordList } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { NextRun } from "#lib/concurrency/next-run.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import {
  parseStateFileName,
  type RecordKey,
  recordFileName,
  recordSuffix,
} from "#lib/files/state-files.ts";
import { mayContain } from "./state-file.ts";

/** What {@link RecordIndex} works with. */
interface RecordIndexOptions {
  readonly dir: string;
  /** All names of the directory. @throws Error if they cannot be read */
  readonly names: () => Promise<readonly string[]>;
  /** The record, and the status of its file from before; undefined without one. @throws CniError */
  readonly read: (
    key: RecordKey,
  ) => { readonly record: AttachmentRecord; readonly status: Stats } | undefined;
  readonly damaged: (key: RecordKey, error: unknown) => DamagedRecord;
}

/** A usable record, and what its file was when it was read; "" if that says nothing. */
interface Entry {
  readonly record: AttachmentRecord;
  readonly identity: string;
}

/**
 * The usable records of a directory, by file name. A file is read again when it has changed: other
 * processes write, mark and remove records, too.
 */
export class RecordIndex {
  readonly #options: RecordIndexOptions;
  readonly #entries = new Map<string, Entry>();
  /** Callers share it: each file is looked at twice at most, however many list at once. */
  readonly #looks = new NextRun(() => this.#look());
  #isComplete = false;

  constructor(options: RecordIndexOptions) {
    this.#options = options;
  }

  /** All records, also those that another process has just written. @throws Error as of `names` */
  list(): Promise<RecordList> {
    return this.#looks.run();
  }

  /**
   * Without looking at the files: those of the last list, and what this process has changed since.
   * Before the first list, which takes long, the usable ones that contain a text.
   */
  async known(text: string): Promise<readonly AttachmentRecord[]> {
    const names = this.#isComplete ? [] : await this.#names();
    const named = names.filter((name) => mayContain(join(this.#options.dir, name), text));
    for (const name of named) this.#read(name);
    return this.#records();
  }

  /** What this process has written. */
  add(record: AttachmentRecord): void {
    this.#entries.set(recordFileName(record), { record, identity: "" });
  }

  remove(key: RecordKey): void {
    this.#entries.delete(recordFileName(key));
  }

  async #look(): Promise<RecordList> {
    const names = await this.#names();
    const damaged: DamagedRecord[] = [];
    // Of what this process has written since, the names lack some.
    for (const name of new Set([...names, ...this.#entries.keys()])) {
      if (this.#isCurrent(name)) continue;
      // A node has hundreds of records: let calls run in between.
      await nextTurn();
      damaged.push(...this.#read(name));
    }
    this.#isComplete = true;
    return { records: this.#records(), damaged };
  }

  async #names(): Promise<string[]> {
    const names = await this.#options.names();
    return names.filter((name) => name.endsWith(recordSuffix)).toSorted();
  }

  #records(): AttachmentRecord[] {
    return [...this.#entries.values()].map(({ record }) => record);
  }

  #isCurrent(name: string): boolean {
    const known = this.#entries.get(name);
    if (known === undefined || known.identity === "") return false;
    const status = lstatSync(join(this.#options.dir, name), { throwIfNoEntry: false });
    return status !== undefined && identityOf(status) === known.identity;
  }

  /** @returns the record if it is damaged */
  #read(name: string): DamagedRecord[] {
    const file = parseStateFileName(name);
    if (file?.kind !== "record") return [];
    const key = { containerId: file.containerId, ifName: file.ifName };
    try {
      const found = this.#options.read(key);
      if (found === undefined) this.#entries.delete(name);
      else this.#entries.set(name, { record: found.record, identity: identityOf(found.status) });
      return [];
    } catch (error) {
      this.#entries.delete(name);
      return [this.#options.damaged(key, error)];
    }
  }
}

/**
 * Updates are appended; another file can have the inode of one that is gone; the mark of a DEL
 * changes mode and ctime. Where times have whole seconds, as on ext3, the next record of a sandbox
 * can have the same.
 */
function identityOf({ ino, size, mtimeMs, ctimeMs, mode }: Stats): string {
  return mtimeMs % 1000 === 0 ? "" : [ino, size, mtimeMs, ctimeMs, mode].join(" ");
}
