import { type DiskOperation, rootInode } from "../../../powerloss/disk/operations.ts";
import type { NamedInode } from "../../../powerloss/disk/tree.ts";
import { type PickOne, type Survival, someRemains } from "../../../powerloss/power-loss.ts";

interface Sync {
  readonly operation: DiskOperation & { readonly kind: "sync" };
  readonly endsAtUs: number;
}

/** What was done to the disk since the machine started. */
export class DiskLog {
  #operations: DiskOperation[] = [];
  /** The number of operations that were durable at the start. */
  #start = 0;
  #syncs: Sync[] = [];

  push(operation: DiskOperation): void {
    this.#operations.push(operation);
  }

  /**
   * Makes what was done to an inode so far durable at a time, unless the power fails before. A sync
   * that fails never ends: nothing later is durable before the next one that succeeds.
   */
  sync(inode: number, endsAtUs: number): void {
    const covers = this.#operations.length;
    this.#syncs.push({ operation: { kind: "sync", inode, covers }, endsAtUs });
  }

  /** What a power loss at a time leaves. */
  remains(lostAtUs: number, pick: PickOne): { survives: Survival; files: NamedInode[] } {
    const over = this.#syncs.filter(({ endsAtUs }) => endsAtUs <= lostAtUs).map(operationOf);
    const durable = Math.max(0, ...over.map(({ covers }) => covers));
    const isPending = ({ endsAtUs, operation }: Sync): boolean =>
      endsAtUs > lostAtUs && (endsAtUs < Infinity || operation.covers >= durable);
    const operations = [...this.#operations, ...over];
    const pending = this.#syncs.filter(isPending).map(operationOf);
    return someRemains({ operations, start: this.#start }, pending, pick);
  }

  /** Begins again with files that are durable. */
  restart(files: readonly NamedInode[]): void {
    this.#syncs = [];
    this.#operations = [];
    const numbers = new Map([["", rootInode]]);
    for (const { path, number, mode, content, entries } of files) {
      const end = path.lastIndexOf("/");
      const parent = numbers.get(path.slice(0, Math.max(0, end))) ?? rootInode;
      const entry = { parent, name: path.slice(end + 1) };
      const directory = entries !== undefined;
      if (directory) numbers.set(path, number);
      this.push({ kind: "create", inode: number, entry, mode, directory });
      if (!directory) this.push({ kind: "write", inode: number, offset: 0, data: content });
    }
    this.#start = this.#operations.length;
  }
}

function operationOf({ operation }: Sync): Sync["operation"] {
  return operation;
}
