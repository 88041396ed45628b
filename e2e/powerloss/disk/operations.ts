/** A place in a directory. */
export interface Entry {
  /** The directory's inode. */
  readonly parent: number;
  readonly name: string;
}

/** One thing that was done to a file system; inodes are numbered, the root is 1. */
export type DiskOperation =
  | {
      readonly kind: "create";
      readonly inode: number;
      readonly entry: Entry;
      readonly mode: number;
      readonly directory: boolean;
    }
  | { readonly kind: "link"; readonly inode: number; readonly entry: Entry }
  | { readonly kind: "unlink"; readonly inode: number; readonly entry: Entry }
  | { readonly kind: "rename"; readonly inode: number; readonly entry: Entry; readonly to: Entry }
  | {
      readonly kind: "write";
      readonly inode: number;
      readonly offset: number;
      readonly data: Data;
    }
  | { readonly kind: "truncate"; readonly inode: number; readonly size: number }
  | { readonly kind: "mode"; readonly inode: number; readonly mode: number }
  /** An fsync has returned: what was done to the inode before operation number `covers` is durable. */
  | { readonly kind: "sync"; readonly inode: number; readonly covers: number }
  /** Something that happened elsewhere at this time. */
  | { readonly kind: "mark"; readonly text: string };

export const rootInode = 1;

/** The content of a write: bytes, or, in what is sent to another process, Base64. */
type Data = string | Uint8Array;

export function bytesOf(data: Data): Uint8Array {
  return typeof data === "string" ? Buffer.from(data, "base64") : data;
}
