import type { Inode } from "./tree.ts";

/** Numbers and structures of the kernel's FUSE protocol, version 7.31 (linux/fuse.h), little-endian. */
const opcodes = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  setattr: 4,
  mkdir: 9,
  unlink: 10,
  rmdir: 11,
  rename: 12,
  link: 13,
  open: 14,
  read: 15,
  write: 16,
  statfs: 17,
  release: 18,
  fsync: 20,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  fsyncdir: 30,
  create: 35,
  interrupt: 36,
  batchForget: 42,
  rename2: 45,
} as const;
export type Opcode = keyof typeof opcodes;
const opcodeNames = Object.keys(opcodes) as Opcode[];

/** The largest write in one request, and a buffer that any request fits in. */
const maxWrite = 128 * 1024;
export const requestSize = 2 * maxWrite;

/** What is asked: the header's fields and what follows it. */
export interface FuseRequest {
  /** undefined for one that is not known. */
  readonly opcode: Opcode | undefined;
  readonly unique: bigint;
  readonly nodeid: number;
  readonly body: Buffer;
}

export function parseRequest(bytes: Buffer): FuseRequest {
  return {
    opcode: opcodeNames.find((name) => opcodes[name] === bytes.readUInt32LE(4)),
    unique: bytes.readBigUInt64LE(8),
    nodeid: Number(bytes.readBigUInt64LE(16)),
    body: bytes.subarray(40),
  };
}

export function formatReply(unique: bigint, error: number, body: Buffer): Buffer {
  const head = Buffer.alloc(16);
  head.writeUInt32LE(16 + body.length, 0);
  head.writeInt32LE(-error, 4);
  head.writeBigUInt64LE(unique, 8);
  return Buffer.concat([head, body]);
}

/** The texts, each ended by a zero, at the end of a request. */
export function names(body: Buffer, from: number): string[] {
  return body.subarray(from).toString().split("\0").slice(0, -1);
}

/** Numbers of 32 bits. */
export function u32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, n) => {
    bytes.writeUInt32LE(value, 4 * n);
  });
  return bytes;
}

function u64(...values: number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  values.forEach((value, n) => {
    bytes.writeBigUInt64LE(BigInt(value), 8 * n);
  });
  return bytes;
}

/** fuse_init_out: asks only for writes of more than a page, so that every operation comes here at once. */
export function initReply(): Buffer {
  const bigWrites = 32;
  const background = u32(0);
  return Buffer.concat([u32(7, 31, 0, bigWrites), background, u32(maxWrite, 1), Buffer.alloc(36)]);
}

/** fuse_attr. */
function attributes(number: number, inode: Inode): Buffer {
  const [type, links] = inode.entries === undefined ? [0o100000, 1] : [0o040000, 2];
  const { length } = inode.content;
  const seconds = Math.floor(inode.modifiedMs / 1000);
  const nanoseconds = Math.floor((inode.modifiedMs % 1000) * 1e6);
  return Buffer.concat([
    u64(number, length, Math.ceil(length / 512), seconds, seconds, seconds),
    u32(nanoseconds, nanoseconds, nanoseconds, type | inode.mode, links, 0, 0, 0, 4096, 0),
  ]);
}

/** fuse_attr_out; nothing may be remembered by the kernel. */
export function attributesReply(number: number, inode: Inode): Buffer {
  return Buffer.concat([u64(0), u32(0, 0), attributes(number, inode)]);
}

/** fuse_entry_out. */
export function entryReply(number: number, inode: Inode): Buffer {
  return Buffer.concat([u64(number, 0, 0, 0), u32(0, 0), attributes(number, inode)]);
}

/** fuse_open_out, without a handle. */
export function openReply(): Buffer {
  return Buffer.concat([u64(0), u32(0, 0)]);
}

/** fuse_statfs_out: there is always room. */
export function statfsReply(): Buffer {
  return Buffer.concat([u64(1e6, 1e6, 1e6, 1e6, 1e6), u32(4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0)]);
}

/** fuse_dirent of each entry from `offset` on, as many as fit. */
export function directoryReply(
  entries: readonly [string, number][],
  offset: number,
  size: number,
): Buffer {
  const parts: Buffer[] = [];
  let used = 0;
  for (const [index, [name, number]] of entries.entries()) {
    if (index < offset) continue;
    const bytes = Buffer.from(name);
    const padding = Buffer.alloc((8 - (bytes.length % 8)) % 8);
    const part = Buffer.concat([u64(number, index + 1), u32(bytes.length, 0), bytes, padding]);
    if (used + part.length > size) break;
    parts.push(part);
    used += part.length;
  }
  return Buffer.concat(parts);
}
