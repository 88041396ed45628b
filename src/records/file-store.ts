import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DamagedRecord, RecordKey, RecordStore, TeardownPlan } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { atomicWrite, syncDirectory, temporarySuffix } from "#lib/atomic-write.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, encodePlan } from "#protocol/messages.ts";
import { formatRecord, parseRecord } from "./record-file.ts";

const recordSuffix = ".json";
const planSuffix = ".teardown";
/** Of files that were put aside, for people to look at. */
const damagedSuffix = ".damaged";
/** A temporary file that has not been written to for so long is nobody's any more. */
const abandonedAfterMs = 600_000;

/**
 * Records and teardown plans as files: `<containerID>@<ifName>.json` and `.teardown`. `@` cannot
 * occur in a container ID, so the key can be read back from the name. The shim finds plans by the
 * same rule when no engine answers.
 */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;
  /** Sandboxes whose files' names are durable: a rename over them needs no fsync of the directory. */
  readonly #named = new Set<string>();

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /** Opens the state directory, makes it (mode 0700) if need be and clears what a crash left half-written. */
  static async open(dir: string): Promise<FileRecordStore> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const leftovers = (await readdir(dir)).filter((name) => name.endsWith(temporarySuffix));
    await Promise.all(leftovers.map((name) => unlinkIfAbandoned(join(dir, name))));
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    const path = this.#path(key, recordSuffix);
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
    const path = this.#path(key, planSuffix);
    const bytes = await readIfThere(path, "teardown plan");
    return bytes === undefined ? undefined : parsePlan(bytes, { path, key });
  }

  async save(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const calls = plan.map(({ group, call }) => ({ group, ...call }));
    const options = { syncDirectory: false };
    try {
      await Promise.all([
        atomicWrite(this.#path(record, recordSuffix), formatRecord(record), options),
        atomicWrite(this.#path(record, planSuffix), encodePlan(record, calls), options),
      ]);
      const name = this.#path(record, recordSuffix);
      if (!this.#named.has(name)) await syncDirectory(this.#dir);
      this.#named.add(name);
    } catch (error) {
      throw new CniError(
        CniErrorCode.IoFailure,
        `cannot write the attachment record in ${this.#dir}: ${String((error as Error).message)}`,
        { cause: error },
      );
    }
  }

  /** The plan goes first: a record without a plan is still torn down by the engine, the reverse is not. */
  async remove(key: RecordKey): Promise<void> {
    this.#named.delete(this.#path(key, recordSuffix));
    await unlinkIfThere(this.#path(key, planSuffix));
    await unlinkIfThere(this.#path(key, recordSuffix));
  }

  async quarantine(key: RecordKey): Promise<void> {
    this.#named.delete(this.#path(key, recordSuffix));
    for (const suffix of [planSuffix, recordSuffix]) {
      const path = this.#path(key, suffix);
      await renameIfThere(path, `${path}${damagedSuffix}`);
    }
  }

  /**
   * Looks for the pod as {@link formatRecord} writes it: reading is cheap, parsing is not, and what
   * is in the page cache is read faster than a thread is asked to.
   */
  async hasPod(pod: { readonly namespace: string; readonly name: string }): Promise<boolean> {
    const { namespace, name } = pod;
    const head = `"pod":${JSON.stringify({ namespace, name }).slice(0, -1)},`;
    const names = (await readdir(this.#dir)).filter((each) => each.endsWith(recordSuffix));
    return names.some((each) => readQuickly(join(this.#dir, each)).includes(head));
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
        damaged.push({ ...key, reason: error instanceof Error ? error.message : String(error) });
      }
    }
    return { records, damaged };
  }

  /** Every sandbox that has a file here. */
  async #keys(): Promise<{ key: RecordKey; hasRecord: boolean }[]> {
    const names = new Set(await readdir(this.#dir));
    const stems = [...names].flatMap((name) => stemOf(name) ?? []);
    return [...new Set(stems)].sort().map((stem) => {
      const at = stem.indexOf("@");
      const key = { containerId: stem.slice(0, at), ifName: stem.slice(at + 1) };
      return { key, hasRecord: names.has(`${stem}${recordSuffix}`) };
    });
  }

  #recordless(key: RecordKey): string {
    return `teardown plan ${this.#path(key, planSuffix)} has no attachment record beside it`;
  }

  #path(key: RecordKey, suffix: string): string {
    return join(this.#dir, `${key.containerId}@${key.ifName}${suffix}`);
  }
}

/** `containerId@ifName` of the name of a record or plan. */
function stemOf(name: string): string | undefined {
  const suffix = [recordSuffix, planSuffix].find((each) => name.endsWith(each));
  const stem = suffix === undefined ? "" : name.slice(0, -suffix.length);
  return stem.indexOf("@") > 0 && !stem.startsWith(".") ? stem : undefined;
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

/** "" for what cannot be read. */
function readQuickly(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
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
