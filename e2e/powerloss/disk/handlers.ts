import {
  attributesReply,
  directoryReply,
  entryReply,
  initReply,
  names,
  type Opcode,
  openReply,
  statfsReply,
  u32,
} from "./fuse.ts";
import type { Entry } from "./operations.ts";
import type { RecordedDisk } from "./recorded-disk.ts";

/** Carries out one request and returns the reply; throws Refused. */
type Handler = (nodeid: number, body: Buffer) => Buffer | Promise<Buffer>;

/** What a disk does for requests of the kernel. Others are not implemented. */
type Handlers = Readonly<Partial<Record<Opcode, Handler>>>;

const nothing = Buffer.alloc(0);

/** All that a disk does. */
export function handlersOf(disk: RecordedDisk): Handlers {
  return {
    init: initReply,
    statfs: statfsReply,
    open: openReply,
    opendir: openReply,
    release: () => nothing,
    releasedir: () => nothing,
    ...inodeHandlers(disk),
    ...entryHandlers(disk),
  };
}

function inodeHandlers(disk: RecordedDisk): Handlers {
  const sync: Handler = async (inode) => {
    await disk.sync(inode);
    return nothing;
  };
  const getattr: Handler = (inode) => attributesReply(inode, disk.inode(inode));
  const range = (body: Buffer): [offset: number, size: number] => [
    Number(body.readBigUInt64LE(8)),
    body.readUInt32LE(16),
  ];
  return {
    fsync: sync,
    fsyncdir: sync,
    getattr,
    setattr(inode, body) {
      setAttributes(disk, inode, body);
      return getattr(inode, body);
    },
    read(inode, body) {
      const [offset, size] = range(body);
      return Buffer.from(disk.inode(inode).content.subarray(offset, offset + size));
    },
    readdir: (inode, body) =>
      directoryReply([...(disk.inode(inode).entries ?? [])], ...range(body)),
    write(inode, body) {
      const [offset, size] = range(body);
      const data = body.subarray(40, 40 + size).toString("base64");
      disk.record({ kind: "write", inode, offset, data });
      return u32(size, 0);
    },
  };
}

/** fuse_setattr_in: of what can be set, mode and size are taken down. */
function setAttributes(disk: RecordedDisk, inode: number, body: Buffer): void {
  const [modeIsValid, sizeIsValid] = [1, 8];
  const valid = body.readUInt32LE(0);
  if ((valid & modeIsValid) !== 0)
    disk.record({ kind: "mode", inode, mode: body.readUInt32LE(68) & 0o7777 });
  if ((valid & sizeIsValid) !== 0)
    disk.record({ kind: "truncate", inode, size: Number(body.readBigUInt64LE(16)) });
}

function entryHandlers(disk: RecordedDisk): Handlers {
  const reply = (inode: number): Buffer => entryReply(inode, disk.inode(inode));
  const entry = (parent: number, body: Buffer, from = 0): Entry => ({
    parent,
    name: names(body, from)[0] ?? "",
  });
  const remove: Handler = (parent, body) => {
    disk.remove(entry(parent, body));
    return nothing;
  };
  const rename =
    (from: number): Handler =>
    (parent, body) => {
      const to = { parent: Number(body.readBigUInt64LE(0)), name: names(body, from)[1] ?? "" };
      const hasFlags = from > 8;
      disk.rename(entry(parent, body, from), to, hasFlags ? body.readUInt32LE(8) : 0);
      return nothing;
    };
  return {
    lookup: (parent, body) => reply(disk.lookup(entry(parent, body))),
    create(parent, body) {
      const inode = disk.create(entry(parent, body, 16), body.readUInt32LE(4), false);
      return Buffer.concat([reply(inode), openReply()]);
    },
    mkdir: (parent, body) => reply(disk.create(entry(parent, body, 8), body.readUInt32LE(0), true)),
    link(parent, body) {
      const inode = Number(body.readBigUInt64LE(0));
      disk.record({ kind: "link", inode, entry: entry(parent, body, 8) });
      return reply(inode);
    },
    unlink: remove,
    rmdir: remove,
    rename: rename(8),
    rename2: rename(16),
  };
}
