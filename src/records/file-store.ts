import { mkdir, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DamagedRecord, RecordKey, RecordStore, TeardownPlan } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { atomicWrite, syncDirectory, temporarySuffix } from "#lib/atomic-write.ts";
import { encodePlan } from "#protocol/messages.ts";
import { formatRecord, parseRecord } from "./record-file.ts";

const recordSuffix = ".json";
const planSuffix = ".teardown";

/**
 * Records and teardown plans as files: `<containerID>@<ifName>.json` and `.teardown`. `@` cannot
 * occur in a container ID, so the key can be read back from the name. The shim finds plans by the
 * same rule when no engine answers.
 */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /** Opens the state directory, makes it (mode 0700) if need be and clears what a crash left half-written. */
  static async open(dir: string): Promise<FileRecordStore> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const names = await readdir(dir);
    const leftovers = names.filter((n) => n.startsWith(".") && n.endsWith(temporarySuffix));
    await Promise.all(leftovers.map((name) => unlinkIfThere(join(dir, name))));
    return new FileRecordStore(dir);
  }

  async load(key: RecordKey): Promise<AttachmentRecord | undefined> {
    const path = this.#path(key, recordSuffix);
    const text = await readIfThere(path);
    if (text === undefined) return undefined;
    const record = parseRecord(text, path);
    if (record.containerId === key.containerId && record.ifName === key.ifName) return record;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `attachment record ${path} is unusable: it is of container ${record.containerId}, interface ${record.ifName}`,
    );
  }

  async save(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    const calls = plan.map(({ group, call }) => ({ group, ...call }));
    const options = { syncDirectory: false };
    try {
      await Promise.all([
        atomicWrite(this.#path(record, recordSuffix), formatRecord(record), options),
        atomicWrite(this.#path(record, planSuffix), encodePlan(record, calls), options),
      ]);
      await syncDirectory(this.#dir);
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
    await unlinkIfThere(this.#path(key, planSuffix));
    await unlinkIfThere(this.#path(key, recordSuffix));
  }

  async list(): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const key of (await readdir(this.#dir)).map(keyOfName)) {
      if (key === undefined) continue;
      try {
        const record = await this.load(key);
        if (record !== undefined) records.push(record);
      } catch (error) {
        damaged.push({ ...key, reason: error instanceof Error ? error.message : String(error) });
      }
    }
    return { records, damaged };
  }

  #path(key: RecordKey, suffix: string): string {
    return join(this.#dir, `${key.containerId}@${key.ifName}${suffix}`);
  }
}

function keyOfName(name: string): RecordKey | undefined {
  const at = name.indexOf("@");
  if (at < 1 || !name.endsWith(recordSuffix)) return undefined;
  return { containerId: name.slice(0, at), ifName: name.slice(at + 1, -recordSuffix.length) };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new CniError(CniErrorCode.IoFailure, `cannot read the attachment record ${path}`, {
      cause: error,
    });
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}
