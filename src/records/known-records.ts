import { lstatSync, type Stats } from "node:fs";
import { basename } from "node:path";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { LruMap } from "#lib/lru-map.ts";
import { parseRecord } from "./record-file.ts";
import { readIfPresent, readStateFile } from "./state-file.ts";

/** What was read of a record's file, and from which one. */
interface KnownFile {
  readonly file: string;
  readonly bytes: Buffer;
  readonly stored?: StoredRecord;
}

/** Larger files are read each time, and so are files of more pods than a node has. */
const keptMax = { bytes: 64 * 1024, files: 500 };

/**
 * Reads the files of records. If the process has no index of them, each call asks what all of them
 * contain: it then keeps what it has read of a file until the file changes.
 */
export class KnownRecords {
  readonly #isKept: boolean;
  readonly #files = new LruMap<KnownFile>(keptMax.files);

  constructor({ isKept }: { readonly isKept: boolean }) {
    this.#isKept = isKept;
  }

  /** The newest record of a file, with its status; undefined without one. @throws CniError */
  read(path: string, key: RecordKey): { stored: StoredRecord; status: Stats } | undefined {
    const known = this.#known(path);
    if (known?.stored !== undefined) return { stored: known.stored, status: known.status };
    const found = readIfPresent(path, "attachment record");
    if (found === undefined) return undefined;
    const stored = parseRecord(found.bytes, { path, key });
    this.#keep(path, { ...found, stored });
    return { stored, status: found.status };
  }

  /** True if a regular file cannot be read: the reader of the record says why. No other is a record. */
  contains(path: string, text: string): boolean {
    const known = this.#known(path);
    if (known !== undefined) return known.bytes.includes(text);
    const status = lstatSync(path, { throwIfNoEntry: false });
    if (!status?.isFile()) return false;
    try {
      const found = readStateFile(path);
      this.#keep(path, found);
      return found.bytes.includes(text);
    } catch {
      return true;
    }
  }

  /** Forgets the files that are not among all names of their directory. */
  forgetOthers(names: readonly string[]): void {
    if (!this.#isKept) return;
    const present = new Set(names);
    for (const [path] of this.#files.entries())
      if (!present.has(basename(path))) this.#files.delete(path);
  }

  #known(path: string): (KnownFile & { readonly status: Stats }) | undefined {
    const known = this.#files.peek(path);
    const status = known && lstatSync(path, { throwIfNoEntry: false });
    if (status === undefined || known?.file !== identityOf(status)) return undefined;
    return { ...known, status };
  }

  #keep(path: string, { status, ...read }: Omit<KnownFile, "file"> & { readonly status: Stats }) {
    // Where times have whole seconds, as on ext3, the next record of a sandbox can have the same.
    const isExact = status.mtimeMs % 1000 !== 0;
    if (this.#isKept && isExact && read.bytes.length <= keptMax.bytes)
      this.#files.set(path, { file: identityOf(status), ...read });
  }
}

/** Updates are appended; another file can have the inode of one that is gone. */
function identityOf({ ino, size, mtimeMs }: Stats): string {
  return `${ino} ${size} ${mtimeMs}`;
}
