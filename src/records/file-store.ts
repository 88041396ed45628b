import { constants, rmSync } from "node:fs";
import { mkdir, open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import type {
  DamagedRecord,
  RecordReader,
  RecordSelection,
  RecordWriter,
  ShimFiles,
} from "#engine/ports/records.ts";
import {
  type AttachmentRecord,
  begunTeardown,
  isOfSameAdd,
  type RecordedSandbox,
} from "#engine/record/record.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import { NextRun } from "#lib/concurrency/next-run.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import {
  damagedFileName,
  defaultPlanName,
  dockerRecordsName,
  engineOnlyFileName,
  parseStateFileName,
  type RecordKey,
  recordFileName,
  tombstoneFileName,
} from "#lib/files/state-files.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { isIncomplete } from "#protocol/plan.ts";
import { KnownRecords } from "./known-records.ts";
import { OpenFiles } from "./open-files.ts";
import { PodIndex } from "./pod-index.ts";
import { formatDefaultPlan, parsePlan } from "./record-file.ts";
import { isSandboxLocked } from "./sandbox-in-use.ts";
import {
  delBegunAt,
  isPresent,
  isPrivateFile,
  makeEmpty,
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
  /** Whether there are no records without the directory. Otherwise that is an error: pods may run. */
  readonly #mayBeAbsent: boolean;
  /** What fails when a record cannot be written. */
  readonly #writing: string;
  readonly #open: OpenFiles;
  readonly #emptying = new Set<Promise<unknown>>();
  readonly #pods: PodIndex;
  readonly #known: KnownRecords;
  /** Callers share it: each record is read at most twice, however many list all of them at once. */
  readonly #all = new NextRun(() => this.#list({}));

  private constructor(
    dir: string,
    {
      known,
      mayBeAbsent = false,
    }: { readonly known?: KnownRecords; readonly mayBeAbsent?: boolean },
  ) {
    this.#dir = dir;
    this.#mayBeAbsent = mayBeAbsent;
    this.#known = known ?? new KnownRecords({ isKept: false });
    this.#pods = new PodIndex({
      list: (selection) => this.#list(selection),
      isKept: known === undefined,
      isPresent: (key) => isPresent(this.#path(recordFileName(key))),
    });
    this.#writing = `write the attachment record in ${dir}`;
    this.#open = new OpenFiles(dir);
  }

  /**
   * Opens the state directory; creates it with mode 0700 if it does not exist. A power loss must not
   * take its name, and with it the records that are synced.
   * @param options.known for a store that is there for one call: what its process has read for others
   */
  static async open(
    dir: string,
    options: { readonly known?: KnownRecords } = {},
  ): Promise<FileRecordStore> {
    const made = await mkdir(dir, { recursive: true, mode: 0o700 });
    if (made !== undefined) await syncDirectory(dirname(made));
    return new FileRecordStore(dir, options);
  }

  /** Reads the records of a state directory, and creates nothing. */
  static reader(dir: string, { mayBeAbsent = false } = {}): RecordReader {
    return new FileRecordStore(dir, { mayBeAbsent });
  }

  /** Reads the records of the Docker driver of the node, if there is one. */
  static ofDocker(stateDir: string): RecordReader {
    return FileRecordStore.reader(join(stateDir, dockerRecordsName), { mayBeAbsent: true });
  }

  async load(key: RecordKey): Promise<StoredRecord | undefined> {
    const found = this.#newest(key);
    if (found === undefined) return undefined;
    const { record, plan } = found.stored;
    const begunAt = record.teardown === undefined ? delBegunAt(found.status) : undefined;
    if (begunAt === undefined) return { record, plan };
    return { record: { ...record, teardown: begunTeardown(begunAt) }, plan };
  }

  async loadPlan(key: RecordKey): Promise<TeardownPlan | undefined> {
    const path = this.#path(recordFileName(key));
    const file = readIfPresent(path, "teardown plan");
    return file && parsePlan(file.bytes, { path, key });
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
    this.#pods.add(record);
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

  async finish(key: RecordKey | RecordedSandbox): Promise<void> {
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
    this.#pods.remove(key);
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

  async sweep(): Promise<void> {
    await sweepStateDirectory(this.#dir);
  }

  async quarantine(key: RecordKey): Promise<void> {
    const record = this.#path(recordFileName(key));
    this.#checkOwn(key);
    this.#pods.remove(key);
    this.#open.release(record);
    await attempt(`rename ${record}`, async () => renameIfPresent(record, damagedFileName(record)));
  }

  async hasPod(pod: PodName): Promise<boolean> {
    return this.#pods.has(pod);
  }

  async keysOf(pod: PodName): Promise<RecordKey[]> {
    return this.#pods.keysOf(pod);
  }

  async list(
    selection: RecordSelection = {},
  ): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
    if (Object.keys(selection).length > 0) return this.#list(selection);
    const { records, damaged } = await this.#all.run();
    return { records: [...records], damaged: [...damaged] };
  }

  async #list({
    isWanted = () => true,
    ...selection
  }: RecordSelection & { readonly isWanted?: (key: RecordKey) => boolean }): ReturnType<
    RecordReader["list"]
  > {
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const key of (await this.#keys(selection)).filter(isWanted)) {
      // A node has hundreds of records: let calls run in between.
      await nextTurn();
      try {
        const stored = await this.load(key);
        if (stored !== undefined) records.push(stored.record);
      } catch (error) {
        damaged.push({ ...key, reason: errorMessage(error), ...this.#contentOf(key) });
      }
    }
    return { records, damaged };
  }

  async #keys({
    atMost = Infinity,
    containing,
    containerId,
  }: RecordSelection): Promise<RecordKey[]> {
    const keys: RecordKey[] = [];
    const reading = readdir(this.#dir);
    const names = this.#mayBeAbsent ? ((await ifPresent(reading)) ?? []) : await reading;
    this.#known.forgetOthers(names);
    for (const name of names.toSorted()) {
      const file = parseStateFileName(name);
      if (file?.kind !== "record") continue;
      if (containerId !== undefined && file.containerId !== containerId) continue;
      const key = { containerId: file.containerId, ifName: file.ifName };
      const path = this.#path(name);
      if (containing === undefined || this.#known.contains(path, containing)) keys.push(key);
    }
    const first = keys.length > atMost ? Math.floor(Math.random() * keys.length) : 0;
    return [...keys.slice(first), ...keys.slice(0, first)].slice(0, atMost);
  }

  #contentOf(key: RecordKey): Omit<DamagedRecord, keyof RecordKey | "reason"> {
    try {
      const { bytes, status } = readStateFile(this.#path(recordFileName(key)));
      const modifiedMs = status.mtimeMs;
      return { isIncomplete: isIncomplete(bytes), isUnreadable: false, modifiedMs };
    } catch {
      return { isIncomplete: false, isUnreadable: true, modifiedMs: 0 };
    }
  }

  #newest(key: RecordKey) {
    const path = this.#path(recordFileName(key));
    return this.#open.newest(path) ?? this.#known.read(path, key);
  }

  /**
   * This process may have been stopped while others detached the sandbox and attached it again. Of
   * an unusable record, nothing says which ADD wrote it.
   * @throws CniError 11 if there is a record of another ADD
   */
  #checkOwn(of: RecordKey | RecordedSandbox): void {
    let found: AttachmentRecord | undefined;
    try {
      found = this.#newest(of)?.stored.record;
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

/** @throws CniError 5 when the step fails, or the step's own */
async function attempt<T>(what: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    if (cause instanceof CniError) throw cause;
    throw new CniError("StateUnwritable", `cannot ${what}: ${errorMessage(cause)}`, { cause });
  }
}
