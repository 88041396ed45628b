import {
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  stat,
  unlink,
} from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DamagedRecord, RecordKey, RecordStore, TeardownPlan } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { swapIn, syncDirectory } from "#lib/atomic-write.ts";
import { errorMessage } from "#lib/error-message.ts";
import { freeLater } from "#lib/free-later.ts";
import {
  damagedFileName,
  parseStateFileName,
  planFileName,
  recordFileName,
} from "#lib/state-files.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, encodePlan } from "#protocol/messages.ts";
import { PodIndex } from "./pod-index.ts";
import { formatRecord, parseRecord } from "./record-file.ts";

/** So long after an ADD its results may not outlast a machine that stops. */
const syncDelayMs = 500;
/** A temporary file that has not been written to for so long is nobody's any more. */
const abandonedAfterMs = 600_000;

/**
 * Records and teardown plans as files: `<containerID>@<ifName>.json` and `.teardown`. `@` cannot
 * occur in a container ID, so the key can be read back from the name. The shim finds plans by the
 * same rule when no engine answers.
 */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;
  /** Paths of the records that this process has made durable. */
  readonly #durable = new Set<string>();
  /** Files whose last content is not durable yet; those that are gone by then need not be. */
  readonly #unsynced = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  /** Read from the files once, when it is first asked for. */
  #pods: PodIndex | undefined;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /** Opens the state directory, makes it (mode 0700) if need be and clears what a crash left half-written. */
  static async open(dir: string): Promise<FileRecordStore> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const names = await readdir(dir);
    const leftovers = names.filter((name) => parseStateFileName(name)?.kind === "temporary");
    await Promise.all(leftovers.map((name) => unlinkIfAbandoned(join(dir, name))));
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    const path = this.#recordPath(key);
    const bytes = await readIfThere(path, "attachment record");
    if (bytes === undefined) return undefined;
    const record = parseRecord(bytes.toString(), path);
    if (record.containerId === key.containerId && record.ifName === key.ifName) return record;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `attachment record ${path} is unusable: it is of container ${record.containerId}, interface ${record.ifName}`,
    );
  }

  async loadPlan(key: RecordKey): Promise<TeardownPlan | undefined> {
    const path = this.#planPath(key);
    const bytes = await readIfThere(path, "teardown plan");
    return bytes === undefined ? undefined : parsePlan(bytes, { path, key });
  }

  /**
   * The first time durable before it resolves: nothing is attached before. Later, with the results,
   * it is there for every process at once and durable soon after: what it adds makes a teardown
   * better, the first content already makes it complete.
   */
  async save(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const calls = plan.map(({ group, call }) => ({ group, ...call }));
    const path = this.#recordPath(record);
    try {
      const files = await Promise.all([
        replace(path, formatRecord(record)),
        replace(this.#planPath(record), encodePlan(record, calls)),
      ]);
      if (this.#durable.has(path)) await this.#syncLater(record, files);
      else await Promise.all([...files.map(syncAndClose), syncDirectory(this.#dir)]);
      this.#durable.add(path);
    } catch (error) {
      throw new CniError(
        CniErrorCode.IoFailure,
        `cannot write the attachment record in ${this.#dir}: ${errorMessage(error)}`,
        { cause: error },
      );
    }
    this.#pods?.add(record);
  }

  /** Makes durable what was saved a moment ago; to be called before the process ends. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const paths = [...this.#unsynced];
    this.#unsynced.clear();
    await Promise.allSettled(paths.map(async (path) => syncAndClose(await open(path, "r"))));
  }

  async remove(key: RecordKey): Promise<void> {
    this.#forget(key);
    await Promise.all(this.#paths(key).map(unlinkIfThere));
  }

  async quarantine(key: RecordKey): Promise<void> {
    this.#forget(key);
    for (const path of this.#paths(key)) await renameIfThere(path, damagedFileName(path));
  }

  async hasPod(pod: { readonly namespace: string; readonly name: string }): Promise<boolean> {
    this.#pods ??= new PodIndex((await this.list()).records);
    return this.#pods.has(pod);
  }

  async list(): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const { key, hasRecord } of await this.#keys()) {
      try {
        const record = await this.load(key);
        if (record !== undefined) records.push(record);
        else if (!hasRecord) damaged.push({ ...key, reason: this.#recordless(key) });
      } catch (error) {
        damaged.push({ ...key, reason: errorMessage(error) });
      }
    }
    return { records, damaged };
  }

  /** Every sandbox that has a file here. */
  async #keys(): Promise<{ key: RecordKey; hasRecord: boolean }[]> {
    const names = new Set(await readdir(this.#dir));
    const keys = [...names].sort().flatMap((name) => {
      const file = parseStateFileName(name);
      if (file?.kind === "record") return [file];
      return file?.kind === "plan" && !names.has(recordFileName(file)) ? [file] : [];
    });
    return keys.map(({ kind, ...key }) => ({ key, hasRecord: kind === "record" }));
  }

  #recordless(key: RecordKey): string {
    return `teardown plan ${this.#planPath(key)} has no attachment record beside it`;
  }

  /** Not at once: a commit of the file system's journal holds up whatever else the call writes. */
  async #syncLater(key: RecordKey, files: readonly FileHandle[]): Promise<void> {
    for (const path of this.#paths(key)) this.#unsynced.add(path);
    this.#timer ??= setTimeout(() => {
      this.flush().catch(() => undefined);
    }, syncDelayMs).unref();
    await Promise.all(files.map((file) => file.close()));
  }

  #forget(key: RecordKey): void {
    this.#durable.delete(this.#recordPath(key));
    this.#pods?.remove(key);
  }

  #recordPath(key: RecordKey): string {
    return join(this.#dir, recordFileName(key));
  }

  #planPath(key: RecordKey): string {
    return join(this.#dir, planFileName(key));
  }

  /** The plan's and the record's, in the order in which they are removed. */
  #paths(key: RecordKey): string[] {
    return [this.#planPath(key), this.#recordPath(key)];
  }
}

function parsePlan(file: Buffer, from: { path: string; key: RecordKey }): TeardownPlan {
  const { path, key } = from;
  try {
    const { containerId, ifName, calls } = decodePlan(file);
    if (containerId !== key.containerId || ifName !== key.ifName) {
      throw new ProtocolError(`it is of container ${containerId}, interface ${ifName}`);
    }
    return calls.map(({ group, ...call }) => ({ group, call }));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `teardown plan ${path} is unusable: ${error.message}`,
      { cause: error },
    );
  }
}

function replace(path: string, content: string | Uint8Array): Promise<FileHandle> {
  return freeLater(path, () => swapIn(path, content));
}

async function syncAndClose(file: FileHandle): Promise<void> {
  await using _closed = file;
  await file.sync();
}

async function readIfThere(path: string, what: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw new CniError(CniErrorCode.IoFailure, `cannot read the ${what} ${path}`, { cause: error });
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  await unlink(path).catch(ignoreAbsent);
}

async function renameIfThere(from: string, to: string): Promise<void> {
  await rename(from, to).catch(ignoreAbsent);
}

/** Another process (one per call where there is no daemon) may be writing a temporary file just now. */
async function unlinkIfAbandoned(path: string): Promise<void> {
  const written = await stat(path).catch(ignoreAbsent);
  if (written !== undefined && Date.now() - written.mtimeMs > abandonedAfterMs) {
    await unlinkIfThere(path);
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (!isAbsent(error)) throw error;
  return undefined;
}

function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
