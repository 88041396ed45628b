import { strictEqual } from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import type {
  DamagedRecord,
  RecordList,
  RecordReader,
  RecordWriter,
  ShimFiles,
} from "#engine/ports/records.ts";
import {
  type AttachmentRecord,
  begunTeardown,
  isOfSameAdd,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** What is kept under a key, as JSON. */
interface Entry {
  readonly key: RecordKey;
  record: string;
  plan: string;
}

/** Records and plans in memory, which can be damaged and made to fail. */
export class FakeRecords implements RecordReader, RecordWriter, ShimFiles {
  readonly #entries = new Map<string, Entry>();
  readonly #journal: string[];
  readonly #tombstones = new Set<string>();
  /** Damaged records whose file cannot even be read. */
  readonly unreadable = new Set<string>();
  readonly #damagedRecords = new Set<string>();
  readonly #damagedPlans = new Set<string>();
  readonly #incomplete = new Set<string>();
  readonly #modifiedMs = new Map<string, number>();
  /** Every create and update, as JSON. */
  readonly #written: { readonly record: string; readonly plan: string }[] = [];
  /** Keys whose files were put aside. */
  readonly quarantined: string[] = [];
  /** The calls of the default network's DEL that are kept. */
  defaultPlan: readonly DelegateCall[] | undefined;
  /** Containers that a shim operates on without the engine. */
  readonly locked = new Set<string>();
  /** Keys that the shim does not detach without an engine. */
  readonly engineOnly = new Set<string>();
  /** Why no record can be written, as STATUS reads it. */
  whyUnusable: string | undefined;
  /** Thrown by the n-th write (from 1), when set. */
  failWrite: { nth: number; error: Error } | undefined;
  /** What a created record waits for until it is durable. */
  becomesDurable: () => Promise<void> = async () => undefined;
  /** Thrown by every {@link finish}, when set. */
  failFinish: Error | undefined;
  /** Thrown by every load, when set. */
  failLoad: Error | undefined;

  constructor(journal: string[]) {
    this.#journal = journal;
  }

  async load(key: RecordKey): Promise<StoredRecord | undefined> {
    if (this.failLoad !== undefined) throw this.failLoad;
    if (this.#damagedRecords.has(name(key))) throw unusable(key);
    const entry = this.#entries.get(name(key));
    return entry && { record: JSON.parse(entry.record), plan: JSON.parse(entry.plan) };
  }

  async create(record: AttachmentRecord, plan: TeardownPlan): Promise<{ durable: Promise<void> }> {
    this.#write(record, plan);
    this.#tombstones.delete(name(record));
    this.#journal.push(`create ${name(record)}`);
    const durable = this.becomesDurable();
    durable.catch(() => undefined);
    return { durable };
  }

  async update(record: AttachmentRecord, plan: TeardownPlan): Promise<void> {
    if (!this.#entries.has(name(record))) throw new Error(`${name(record)} was not created`);
    this.#checkOwn(record);
    this.#write(record, plan);
    this.#journal.push(`update ${name(record)}`);
  }

  async flush(): Promise<void> {}

  async problem(): Promise<string | undefined> {
    return this.whyUnusable;
  }

  async finish(key: RecordKey & Partial<AttachmentRecord>): Promise<void> {
    if (this.failFinish !== undefined) throw this.failFinish;
    this.#checkOwn(key);
    await this.remove(key);
  }

  /** What another process does that has detached the sandbox. */
  async remove(key: RecordKey): Promise<void> {
    this.#tombstones.add(name(key));
    if (this.#forget(key)) this.#journal.push(`finish ${name(key)}`);
  }

  async keepDefaultPlan(calls: readonly DelegateCall[]): Promise<void> {
    this.defaultPlan = calls;
  }

  async requireEngine(key: RecordKey): Promise<void> {
    this.engineOnly.add(name(key));
  }

  async isLocked(containerId: string): Promise<boolean> {
    return this.locked.has(containerId);
  }

  async hasTombstone(key: RecordKey): Promise<boolean> {
    return this.#tombstones.has(name(key));
  }

  async sweep(): Promise<void> {
    this.#tombstones.clear();
  }

  async quarantine(key: RecordKey): Promise<void> {
    this.#checkOwn(key);
    if (this.#forget(key)) this.quarantined.push(name(key));
  }

  /** The keys of records that lead to a namespace, or are damaged. */
  leadingTo(isThere: (netns: string) => boolean): RecordKey[] {
    const found = [...this.#entries.values()].filter(({ key, record }) => {
      return this.#damagedRecords.has(name(key)) || isThere(JSON.parse(record).netns);
    });
    return found.map(({ key }) => key);
  }

  async known(): Promise<readonly AttachmentRecord[]> {
    return (await this.list()).records;
  }

  async list(): Promise<RecordList> {
    const records: AttachmentRecord[] = [];
    const damaged: DamagedRecord[] = [];
    for (const { key, record, plan } of this.#entries.values()) {
      if (!this.#damagedRecords.has(name(key))) records.push(JSON.parse(record));
      else {
        damaged.push({
          ...key,
          error: unusable(key),
          plan: this.#damagedPlans.has(name(key)) ? undefined : JSON.parse(plan),
          isIncomplete: this.#incomplete.has(name(key)),
          isUnreadable: this.unreadable.has(name(key)),
          modifiedMs: this.#modifiedMs.get(name(key)) ?? 0,
          mayContain: (text) => record.includes(text),
        });
      }
    }
    return { records, damaged };
  }

  /** Makes the record of a sandbox unusable, or also its plan. */
  damage(key: RecordKey, what: "record" | "both"): void {
    this.#damagedRecords.add(name(key));
    if (what === "both") this.#damagedPlans.add(name(key));
  }

  /** What a power loss leaves if the content was not on disk, or what emptied it at a time of this boot. */
  cutOff(key: RecordKey, modifiedMs = 0): void {
    this.damage(key, "both");
    this.#incomplete.add(name(key));
    this.#modifiedMs.set(name(key), modifiedMs);
  }

  /** Stores what another process left, which need not fit together. */
  put(record: AttachmentRecord, plan: TeardownPlan): void {
    const { containerId, ifName } = record;
    const key = { containerId, ifName };
    this.#entries.set(name(key), {
      key,
      record: JSON.stringify(record),
      plan: JSON.stringify(plan),
    });
  }

  /** Changes a stored record, as another process or an earlier release would. @default the last that was written */
  change(
    change: (record: AttachmentRecord) => Partial<AttachmentRecord>,
    key: RecordKey | undefined = this.writes.at(-1)?.record,
  ): void {
    const entry = key && this.#entries.get(name(key));
    if (entry === undefined) throw new Error("there is no such record");
    const record: AttachmentRecord = JSON.parse(entry.record);
    entry.record = JSON.stringify({ ...record, ...change(record) });
  }

  /** Changes each attachment of a stored record in the same way. */
  changeAttachments(
    change: (attachment: RecordedAttachment) => Partial<RecordedAttachment>,
    key?: RecordKey,
  ): void {
    const changed = (each: RecordedAttachment) => ({ ...each, ...change(each) });
    this.change(({ attachments }) => ({ attachments: attachments.map(changed) }), key);
  }

  /** What the shim does when a DEL begins: until it has succeeded, its record says so. */
  beginDel(key: RecordKey, at: string): void {
    const entry = this.#entries.get(name(key));
    const record = parsed<AttachmentRecord>(entry?.record);
    if (entry === undefined || record === undefined || record.teardown !== undefined) return;
    entry.record = JSON.stringify({ ...record, teardown: begunTeardown(at) });
  }

  /** Loses a record, which leaves no tombstone. */
  lose(key: RecordKey): void {
    this.#forget(key);
  }

  /** Every create and update, in order. */
  get writes(): { record: AttachmentRecord; plan: TeardownPlan }[] {
    return this.#written.map(({ record, plan }) => ({
      record: JSON.parse(record),
      plan: JSON.parse(plan),
    }));
  }

  get writeCount(): number {
    return this.#written.length;
  }

  /** `containerId@ifName` of everything that is kept. */
  get keys(): string[] {
    return [...this.#entries.keys()];
  }

  #write(record: AttachmentRecord, plan: TeardownPlan): void {
    const timeoutMs = plan.steps[0]?.call.timeoutMs ?? 0;
    const written = { record: JSON.stringify(record), plan: JSON.stringify(plan) };
    const { steps, ...whole } = teardownPlan(withPartialResults(record, plan), timeoutMs);
    // After a DEL that failed, the plan lacks the steps that have succeeded.
    const left = steps.filter((step) => plan.steps.some((each) => isDeepStrictEqual(each, step)));
    const same = JSON.stringify({ ...whole, steps: left });
    strictEqual(written.plan, same, "record and plan differ");
    this.#written.push(written);
    if (this.failWrite?.nth === this.writeCount) throw this.failWrite.error;
    const { containerId, ifName } = record;
    this.#entries.set(name(record), { key: { containerId, ifName }, ...written });
  }

  #checkOwn(of: RecordKey & Partial<AttachmentRecord>): void {
    if (this.failLoad !== undefined || this.#damagedRecords.has(name(of))) return;
    const found = parsed<AttachmentRecord>(this.#entries.get(name(of))?.record);
    if (found === undefined || isOfSameAdd(found, of)) return;
    throw new CniError("TryAgainLater", "another process has attached the sandbox again meanwhile");
  }

  #forget(key: RecordKey): boolean {
    this.engineOnly.delete(name(key));
    this.#damagedRecords.delete(name(key));
    this.#damagedPlans.delete(name(key));
    return this.#entries.delete(name(key));
  }
}

/** An attachment without a result has the last one of its chain in the plan alone. */
function withPartialResults(record: AttachmentRecord, { steps }: TeardownPlan): AttachmentRecord {
  const attachments = record.attachments.map((attachment, position) => {
    const call = steps.find(({ group }) => group === position)?.call;
    const conf = parsed<{ readonly prevResult?: JsonObject }>(call?.stdin);
    return omitUndefined({ ...attachment, result: attachment.result ?? conf?.prevResult });
  });
  return { ...record, attachments };
}

function parsed<T>(text: string | undefined): T | undefined {
  return text === undefined ? undefined : JSON.parse(text);
}

function name({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}`;
}

function unusable(key: RecordKey): CniError {
  const message = `attachment record ${name(key)} is unusable: its checksum does not match`;
  return new CniError("DecodingFailure", message);
}
