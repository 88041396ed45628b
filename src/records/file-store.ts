import { constants, rmSync } from "node:fs";
import { mkdir, open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { asCniError, CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type {
  DamagedRecord,
  RecordList,
  RecordReader,
  RecordWriter,
  ShimFiles,
} from "#engine/ports/records.ts";
import { type AttachmentRecord, begunTeardown, isOfSameAdd } from "#engine/record/record.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import {
  damagedFileName,
  defaultPlanName,
  dockerRecordsName,
  engineOnlyFileName,
  type RecordKey,
  recordFileName,
  tombstoneFileName,
} from "#lib/files/state-files.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { isIncomplete } from "#protocol/plan.ts";
import { OpenFiles } from "./open-files.ts";
import { formatDefaultPlan, parseRecord, planIn } from "./record-file.ts";
import { RecordIndex } from "./record-index.ts";
import { isSandboxLocked } from "./sandbox-in-use.ts";
import { stateDirProblem } from "./state-directory.ts";
import {
  delBegunAt,
  isPresent,
  isPrivateFile,
  makeEmpty,
  mayContain,
  readIfPresent,
  readStateFile,
  renameIfPresent,
} from "./state-file.ts";
import { sweepStateDirectory } from "./sweep.ts";

/**
 * Stores records with plans as `<containerID>@<ifName>.record` in one directory. Updates are
 * appended; finishing a record leaves a tombstone (`.detached`). The name gives the key, because a
 * container ID contains no `@`.
 */
export class FileRecordStore implements RecordReader, RecordWriter, ShimFiles {
  readonly #dir: string;
  /** What fails when a record cannot be written. */
  readonly #writing: string;
  readonly #open: OpenFiles;
  readonly #emptying = new Set<Promise<unknown>>();
  readonly #index: RecordIndex;

  /** @param mayBeAbsent there are no records without the directory; else that is an error: pods may run */
  private constructor(dir: string, mayBeAbsent = false) {
    this.#dir = dir;
    this.#index = new RecordIndex({
      dir,
      names: async () => (mayBeAbsent ? ((await ifPresent(readdir(dir))) ?? []) : readdir(dir)),
      read: (key) => this.#newest(key),
      damaged: (key, error) => this.#damaged(key, error),
    });
    this.#writing = `write the attachment record in ${dir}`;
    this.#open = new OpenFiles(dir);
  }

  /**
   * Opens the state directory; creates it with mode 0700 if it does not exist. A power loss must not
   * take its name, and with it the records that are synced.
   */
  static async open(dir: string): Promise<FileRecordStore> {
    const made = await mkdir(dir, { recursive: true, mode: 0o700 });
    if (made !== undefined) await syncDirectory(dirname(made));
    return new FileRecordStore(dir);
  }

  /** Reads the records of a state directory, and creates nothing. */
  static reader(dir: string, { mayBeAbsent = false } = {}): RecordReader {
    return new FileRecordStore(dir, mayBeAbsent);
  }

  /** Reads the records of the Docker driver of the node, if there is one. */
  static ofDocker(stateDir: string): RecordReader {
    return FileRecordStore.reader(join(stateDir, dockerRecordsName), { mayBeAbsent: true });
  }

  async load(key: RecordKey): Promise<StoredRecord | undefined> {
    const found = this.#newest(key);
    return found && { record: found.record, plan: found.stored.plan };
  }

  async create(record: AttachmentRecord, plan: TeardownPlan): Promise<{ durable: Promise<void> }> {
    const path = this.#path(recordFileName(record));
    const { synced } = await attempt(this.#writing, async () => {
      // If this process was stopped meanwhile, its shim has had the sandbox attached by another one.
      if (isPresent(path)) throw new Error("another process attached the sandbox meanwhile");
      this.#remove(tombstoneFileName(record));
      this.#remove(engineOnlyFileName(record));
      return this.#open.put(path, { record, plan });
    });
    this.#index.add(record);
    const durable = attempt(this.#writing, () => synced);
    // Callers that do not await it need not handle its failure.
    durable.catch(() => undefined);
    return { durable };
  }

  async update(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const path = this.#path(recordFileName(record));
    await attempt(this.#writing, async () => {
      if (!isPresent(path)) throw new Error("the sandbox was detached meanwhile");
      this.#checkOwn(record);
      await this.#open.append(path, { record, plan });
    });
  }

  async flush(): Promise<void> {
    await Promise.all([this.#open.flush(), ...this.#emptying]);
  }

  async finish(key: RecordKey & Partial<AttachmentRecord>): Promise<void> {
    const record = this.#path(recordFileName(key));
    const tombstone = this.#path(tombstoneFileName(key));
    await attempt(`remove the attachment record in ${this.#dir}`, async () => {
      this.#checkOwn(key);
      this.#open.release(record);
      // While the plan exists, any process that finds it detaches the rest.
      if (renameIfPresent(record, tombstone)) this.#emptyLater(tombstone);
      else makeEmpty(tombstone);
      this.#remove(engineOnlyFileName(key));
    });
    this.#index.remove(key);
  }

  async keepDefaultPlan(calls: readonly DelegateCall[]): Promise<void> {
    const path = this.#path(defaultPlanName);
    const content = formatDefaultPlan(calls);
    await attempt(`write ${path}`, async () => {
      if (!isPrivateFile(path, content)) await atomicWrite(path, content);
    });
  }

  /** A file beside the record, because records are replaced, and the shim sets the record's mode. */
  async requireEngine(key: RecordKey): Promise<void> {
    const path = this.#path(engineOnlyFileName(key));
    await attempt(`write ${path}`, async () => makeEmpty(path));
  }

  async hasTombstone(key: RecordKey): Promise<boolean> {
    return isPresent(this.#path(tombstoneFileName(key)));
  }

  isLocked(containerId: string): Promise<boolean> {
    return isSandboxLocked(this.#dir, containerId);
  }

  problem(): Promise<string | undefined> {
    return stateDirProblem(this.#dir);
  }

  async sweep(): Promise<void> {
    await sweepStateDirectory(this.#dir);
  }

  async quarantine(key: RecordKey): Promise<void> {
    const record = this.#path(recordFileName(key));
    this.#checkOwn(key);
    this.#open.release(record);
    await attempt(`rename ${record}`, async () => renameIfPresent(record, damagedFileName(record)));
  }

  list(): Promise<RecordList> {
    return this.#index.list();
  }

  known(text: string): Promise<readonly AttachmentRecord[]> {
    return this.#index.known(text);
  }

  #damaged(key: RecordKey, error: unknown): DamagedRecord {
    const path = this.#path(recordFileName(key));
    const common = { ...key, error: asCniError(error), mayContain: mayContain.bind(null, path) };
    try {
      const { bytes, status } = readStateFile(path);
      const content = { isIncomplete: isIncomplete(bytes), modifiedMs: status.mtimeMs };
      return { ...common, ...content, plan: planIn(bytes, key), isUnreadable: false };
    } catch {
      const nothing = { plan: undefined, isIncomplete: false, modifiedMs: 0 };
      return { ...common, ...nothing, isUnreadable: true };
    }
  }

  #newest(key: RecordKey) {
    const path = this.#path(recordFileName(key));
    const found = this.#open.newest(path) ?? readRecord(path, key);
    if (found === undefined) return undefined;
    const { record } = found.stored;
    const begunAt = record.teardown === undefined ? delBegunAt(found.status) : undefined;
    const marked = begunAt === undefined ? record : { ...record, teardown: begunTeardown(begunAt) };
    return { ...found, record: marked };
  }

  /**
   * This process may have been stopped while others detached the sandbox and attached it again. Of
   * an unusable record, nothing says which ADD wrote it.
   * @throws CniError 11 if there is a record of another ADD
   */
  #checkOwn(of: RecordKey & Partial<AttachmentRecord>): void {
    let found: AttachmentRecord | undefined;
    try {
      found = this.#newest(of)?.record;
    } catch {
      return;
    }
    if (found === undefined || isOfSameAdd(found, of)) return;
    throw new CniError("TryAgainLater", "another process has attached the sandbox again meanwhile");
  }

  /** Later, because a disk that discards the blocks, or starting a thread, delays the answer. */
  #emptyLater(path: string): void {
    const { O_WRONLY, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
    const emptied = nextTurn()
      .then(() => open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK))
      .then((file) => file.close())
      .catch(() => undefined)
      .finally(() => this.#emptying.delete(emptied));
    this.#emptying.add(emptied);
  }

  #remove(name: string): void {
    const path = this.#path(name);
    // A removal takes longer than this check.
    if (isPresent(path)) rmSync(path, { force: true });
  }

  #path(name: string): string {
    return join(this.#dir, name);
  }
}

/** The newest record of a file, with its status; undefined without one. @throws CniError 5, 6 */
function readRecord(path: string, key: RecordKey) {
  const found = readIfPresent(path);
  return found && { stored: parseRecord(found.bytes, { path, key }), status: found.status };
}

/** @throws CniError 5 when the step fails, or the step's own */
async function attempt<T>(what: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    if (cause instanceof CniError) throw cause;
    throw new CniError("StateUnwritable", `cannot ${what}: ${errorMessage(cause)}`, { cause });
  }
}
