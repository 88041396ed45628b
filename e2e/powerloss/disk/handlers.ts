import {
  attributesReply,
  directoryReply,
  entryReply,
  initReply,
  names,
  opcode,
  openReply,
  statfsReply,
} from "./fuse.ts";
import type { RecordedDisk } from "./recorded-disk.ts";

/** Carries out one request and returns the reply; throws Refused. */
type Handler = (nodeid: number, body: Buffer) => Buffer | Promise<Buffer>;

const nothing = Buffer.alloc(0);

/** What a disk does for each request of the kernel; one that is not there is not implemented. */
export function handlersOf(disk: RecordedDisk): ReadonlyMap<number, Handler> {
  const withoutState: [number, Handler][] = [
    [opcode.init, initReply],
    [opcode.statfs, statfsReply],
    [opcode.open, openReply],
    [opcode.opendir, openReply],
    [opcode.release, () => nothing],
    [opcode.releasedir, () => nothing],
  ];
  return new Map([...withoutState, ...inodeHandlers(disk), ...entryHandlers(disk)]);
}

function inodeHandlers(disk: RecordedDisk): [number, Handler][] {
  const sync: Handler = async (inode) => {
    await disk.sync(inode);
    return nothing;
  };
  const attributes: Handler = (inode) => attributesReply(inode, disk.inode(inode));
  return [
    [opcode.fsync, sync],
    [opcode.fsyncdir, sync],
    [opcode.getattr, attributes],
    [
      opcode.setattr,
      (inode, body) => {
        setAttributes(disk, inode, body);
        return attributes(inode, body);
      },
    ],
    [
      opcode.read,
      (inode, body) => {
        const [offset, size] = [Number(body.readBigUInt64LE(8)), body.readUInt32LE(16)];
        return Buffer.from(disk.inode(inode).content.subarray(offset, offset + size));
      },
    ],
    [
      opcode.readdir,
      (inode, body) => {
        const entries = [...(disk.inode(inode).entries ?? [])];
        return directoryReply(entries, Number(body.readBigUInt64LE(8)), body.readUInt32LE(16));
      },
    ],
    [
      opcode.write,
      (inode, body) => {
        const size = body.readUInt32LE(16);
        const data = body.subarray(40, 40 + size).toString("base64");
        disk.record({ kind: "write", inode, offset: Number(body.readBigUInt64LE(8)), data });
        const reply = Buffer.alloc(8);
        reply.writeUInt32LE(size, 0);
        return reply;
      },
    ],
  ];
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

function entryHandlers(disk: RecordedDisk): [number, Handler][] {
  const entry = (inode: number): Buffer => entryReply(inode, disk.inode(inode));
  const remove: Handler = (parent, body) => {
    disk.remove({ parent, name: names(body, 0)[0] ?? "" });
    return nothing;
  };
  const rename =
    (namesFrom: number): Handler =>
    (parent, body) => {
      const [name = "", newName = ""] = names(body, namesFrom);
      const to = { parent: Number(body.readBigUInt64LE(0)), name: newName };
      const hasFlags = namesFrom > 8;
      disk.rename({ parent, name }, to, hasFlags ? body.readUInt32LE(8) : 0);
      return nothing;
    };
  const make = (parent: number, name = "", how: { mode: number; directory: boolean }): Buffer =>
    entry(disk.create({ parent, name }, how));
  return [
    [
      opcode.lookup,
      (parent, body) => entry(disk.lookup({ parent, name: names(body, 0)[0] ?? "" })),
    ],
    [
      opcode.create,
      (parent, body) => {
        const made = make(parent, names(body, 16)[0], {
          mode: body.readUInt32LE(4),
          directory: false,
        });
        return Buffer.concat([made, openReply()]);
      },
    ],
    [
      opcode.mkdir,
      (parent, body) =>
        make(parent, names(body, 8)[0], { mode: body.readUInt32LE(0), directory: true }),
    ],
    [
      opcode.link,
      (parent, body) => {
        const inode = Number(body.readBigUInt64LE(0));
        disk.record({ kind: "link", inode, entry: { parent, name: names(body, 8)[0] ?? "" } });
        return entry(inode);
      },
    ],
    [opcode.unlink, remove],
    [opcode.rmdir, remove],
    [opcode.rename, rename(8)],
    [opcode.rename2, rename(16)],
  ];
}
