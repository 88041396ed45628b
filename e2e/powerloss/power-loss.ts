import { parse } from "node:path";
import { parseStateFileName } from "#lib/files/state-files.ts";
import { bytesOf, type DiskOperation, rootInode } from "./disk/operations.ts";
import { type NamedInode, Tree } from "./disk/tree.ts";

/** A file of the disk; one without content is a directory. */
interface SavedFile {
  readonly path: string;
  readonly mode: number;
  /** Base64. */
  readonly content?: string;
}

/** A disk as a power loss may leave it. */
export interface Remains {
  /** How many operations had been made. */
  readonly after: number;
  /** Which operations without an fsync survive. */
  readonly survives: Survival;
  readonly files: readonly SavedFile[];
}

/**
 * What is left of operations that no fsync has covered. A directory entry (creation, rename, removal)
 * is covered by an fsync of the directory, content by one of the file.
 */
export const survivals = {
  everything: "every operation survives",
  "only what was synced": "only operations covered by an fsync survive",
  "names without content": "all entries survive, contents only if synced",
  "half of the content": "the same, with half of each write that was not synced",
  "one entry lost": "everything survives except one entry that was not synced",
  "one entry kept": "of the entries that were not synced only one survives, and all contents",
  "one write lost": "everything survives except one write that was not synced",
  "no leases": "everything survives except what IPAM wrote since the start",
} as const;
export type Survival = keyof typeof survivals;

/** Chooses one of several; the first ones keep everything. */
export type PickOne = <T>(items: readonly T[]) => T;

/** Which operations survive a power loss, and how much of a write. */
type Filter = (operation: DiskOperation, index: number) => "whole" | "half" | "no";

/** A log of operations from which power losses are made. */
export interface Recording {
  readonly operations: readonly DiskOperation[];
  /** The number of operations that had been made, and were durable, at the start. */
  readonly start: number;
}

/** Below this directory IPAM has its leases; it syncs nothing, but they may be durable at any time. */
export const leasesName = "cni";

/** Every disk that a power loss may leave after any of the operations, each content once. */
export function* everyRemains(
  recording: Recording,
  wanted: readonly Survival[] = Object.keys(survivals) as Survival[],
): Generator<Remains> {
  const seen = new Set<string>();
  for (let after = recording.start; after <= recording.operations.length; after++) {
    for (const { survives, filter } of filtersAt(recording, after)) {
      if (!wanted.includes(survives)) continue;
      const files = filesAfter(recording.operations.slice(0, after), filter);
      const key = JSON.stringify(files.filter(({ path }) => isRead(path)));
      if (seen.has(key)) continue;
      seen.add(key);
      yield { after, survives, files };
    }
  }
}

/**
 * One disk that a power loss may leave after all operations, each survival with the same probability.
 * @param pending the fsyncs that the power loss interrupts
 */
export function someRemains(
  { operations, start }: Recording,
  pending: readonly DiskOperation[],
  pick: PickOne,
): { survives: Survival; files: NamedInode[] } {
  const recording = { operations: [...operations, ...pending], start };
  const filters = filtersAt(recording, operations.length);
  const wanted = pick([...new Set(filters.map(({ survives }) => survives))]);
  const { survives, filter } = pick(filters.filter((each) => each.survives === wanted));
  // Nor do other changes of metadata survive a lease that was removed before them: the journal is in order.
  const begun = beginOfSyncs(recording.operations, operations.length);
  const inOrder: Filter = (operation, index) =>
    index >= begun && isMetadata(operation) && survives !== "everything"
      ? "no"
      : filter(operation, index);
  return { survives, files: survivors(operations, inOrder) };
}

/** What a file system's journal contains. Files are only appended to, so writes change a length. */
function isMetadata(operation: DiskOperation): boolean {
  return "entry" in operation || operation.kind === "truncate" || operation.kind === "write";
}

/**
 * Whether a file is read after a restart. Locks, temporary files and host-local's last address are not, nor kept
 * definitions while the API has them.
 */
function isRead(path: string): boolean {
  const { base: name } = parse(path);
  if (path.startsWith(`${leasesName}/`)) return !/^(lock|last_reserved_ip\..*)$/.test(name);
  const kind = parseStateFileName(name)?.kind;
  return kind === undefined || !["temporary", "sandbox-lock", "kept-definitions"].includes(kind);
}

/** The log as it would be had nothing of a kind been synced: what the test has to notice. */
export function withoutSyncs(
  { operations, start }: Recording,
  kind: "files" | "directories",
): Recording {
  const directories = new Set([rootInode, ...directoriesOf(operations)]);
  const isMeant = (inode: number): boolean => directories.has(inode) === (kind === "directories");
  const changed = operations.map(
    (operation, index): DiskOperation =>
      index >= start && operation.kind === "sync" && isMeant(operation.inode)
        ? { kind: "mark", text: "no fsync" }
        : operation,
  );
  return { operations: changed, start };
}

function filtersAt(
  { operations, start }: Recording,
  after: number,
): { survives: Survival; filter: Filter }[] {
  const covered = coverage([...operations.slice(0, after), ...overtaken(operations, after)]);
  const leases = leaseInodes(operations);
  const isDurable: (operation: DiskOperation, index: number) => boolean = (operation, index) =>
    index < start || isLease(operation, leases) || index < (covered.get(targetOf(operation)) ?? 0);
  const isEntry = (operation: DiskOperation): boolean => "entry" in operation;
  const pending = beginOfSyncs(operations, after);
  const unless =
    (lost: (operation: DiskOperation, index: number) => "half" | "no" | false): Filter =>
    (operation, index) => {
      if (isLease(operation, leases) && index >= pending) return "no";
      return isDurable(operation, index) ? "whole" : lost(operation, index) || "whole";
    };
  const loose = [...operations.slice(0, after).entries()].filter(([n, o]) => !isDurable(o, n));
  const entries = loose.flatMap(([index, operation]) => (isEntry(operation) ? index : []));
  const writes = loose.flatMap(([index, { kind }]) => (kind === "write" ? index : []));
  return [
    { survives: "everything", filter: () => "whole" },
    { survives: "only what was synced", filter: unless(() => "no") },
    { survives: "names without content", filter: unless((o) => !isEntry(o) && "no") },
    { survives: "half of the content", filter: unless((o) => !isEntry(o) && "half") },
    ...entries.map((lost) => ({
      survives: "one entry lost" as const,
      filter: unless((_, index) => index === lost && "no"),
    })),
    ...writes.map((lost) => ({
      survives: "one write lost" as const,
      filter: unless((_, index) => index === lost && "no"),
    })),
    ...entries.map((kept) => ({
      survives: "one entry kept" as const,
      filter: unless((o, index) => isEntry(o) && index !== kept && "no"),
    })),
    {
      survives: "no leases",
      // A lease from before that was removed stays so.
      filter: (o, index) =>
        index >= start && isLease(o, leases) && o.kind !== "unlink" ? "no" : "whole",
    },
  ];
}

/** The inode whose fsync makes an operation durable: the directory's, or the file's. */
function targetOf(operation: DiskOperation): number {
  if ("entry" in operation) return operation.entry.parent;
  return operation.kind === "mark" ? 0 : operation.inode;
}

/** For each inode, how many of the first operations are durable. */
function coverage(operations: readonly DiskOperation[]): Map<number, number> {
  const covered = new Map<number, number>();
  for (const operation of operations)
    if (operation.kind === "sync")
      covered.set(operation.inode, Math.max(covered.get(operation.inode) ?? 0, operation.covers));
  return covered;
}

/**
 * When the first of the fsyncs began that the power loss interrupted. The journal of a file system keeps the order: a
 * lease that was made since then is durable only with what the fsync covers, or one that has ended.
 */
function beginOfSyncs(operations: readonly DiskOperation[], after: number): number {
  const begun = operations
    .slice(after)
    .flatMap((o) => (o.kind === "sync" && o.covers <= after ? o.covers : []));
  const ended = operations.slice(0, after).map((o) => (o.kind === "sync" ? o.covers : 0));
  return Math.max(Math.min(...begun), ...ended);
}

/**
 * The interrupted fsyncs that began before one that has ended: its commit of the journal has waited
 * for what they write.
 */
function overtaken(operations: readonly DiskOperation[], after: number): DiskOperation[] {
  const coversOf = (o: DiskOperation): number => (o.kind === "sync" ? o.covers : 0);
  const ended = Math.max(0, ...operations.slice(0, after).map(coversOf));
  return operations.slice(after).filter((o) => o.kind === "sync" && o.covers < ended);
}

/** The inodes of the leases' directory and of all that was ever in it. */
function leaseInodes(operations: readonly DiskOperation[]): Set<number> {
  const inodes = new Set<number>();
  for (const operation of operations) {
    if (operation.kind !== "create") continue;
    const { parent, name } = operation.entry;
    if (inodes.has(parent) || (parent === rootInode && name === leasesName))
      inodes.add(operation.inode);
  }
  return inodes;
}

function isLease(operation: DiskOperation, leases: ReadonlySet<number>): boolean {
  return leases.has(targetOf(operation));
}

function directoriesOf(operations: readonly DiskOperation[]): number[] {
  return operations.flatMap((o) => (o.kind === "create" && o.directory ? o.inode : []));
}

function filesAfter(operations: readonly DiskOperation[], filter: Filter): SavedFile[] {
  return survivors(operations, filter).map(({ path, mode, content, entries }) => ({
    path,
    mode,
    ...(entries === undefined && { content: content.toString("base64") }),
  }));
}

function survivors(operations: readonly DiskOperation[], filter: Filter): NamedInode[] {
  const tree = new Tree();
  for (const [index, operation] of operations.entries()) {
    tree.prepare(operation);
    const much = filter(operation, index);
    if (much === "whole") tree.apply(operation);
    else if (much === "half" && operation.kind === "write") tree.apply(halfOf(operation));
  }
  return [...tree.files()].filter((file) => !isHalfMadeLease(file));
}

/**
 * host-local creates a lease and then writes its owner into it. Only host-local itself could remove what a power loss
 * in between leaves.
 */
function isHalfMadeLease({ path, content, entries }: NamedInode): boolean {
  const isEmptyFile = entries === undefined && content.length === 0;
  return path.startsWith(`${leasesName}/`) && isEmptyFile && isRead(path);
}

function halfOf(write: DiskOperation & { kind: "write" }): DiskOperation {
  const data = bytesOf(write.data);
  return { ...write, data: data.subarray(0, data.length >> 1) };
}
