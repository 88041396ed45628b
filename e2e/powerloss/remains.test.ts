import { expect, test } from "vitest";
import { type DiskOperation, rootInode } from "./disk/operations.ts";
import {
  everyRemains,
  leasesName,
  type Recording,
  type Survival,
  withoutSyncs,
} from "./power-loss.ts";

const [leases, file, lease] = [2, 3, 4];

function create(inode: number, name: string, parent = rootInode): DiskOperation {
  return {
    kind: "create",
    inode,
    entry: { parent, name },
    mode: 0o600,
    directory: inode === leases,
  };
}

function write(inode: number, text: string, offset = 0): DiskOperation {
  return { kind: "write", inode, offset, data: Buffer.from(text).toString("base64") };
}

/** A file that is written under another name, renamed and then synced, with a lease in between. */
const recording: Recording = {
  start: 1,
  operations: [
    create(leases, leasesName),
    create(file, "new"),
    write(file, "record"),
    create(lease, "10.0.0.2", leases),
    write(lease, "c1"),
    {
      kind: "rename",
      inode: file,
      entry: { parent: rootInode, name: "new" },
      to: { parent: rootInode, name: "old" },
    },
    { kind: "sync", inode: file, covers: 6 },
    { kind: "sync", inode: rootInode, covers: 6 },
  ],
};

/** The files of each disk as `name=content`, after the number of operations done. */
function disks(survives: Survival, from = recording): string[] {
  return [...everyRemains(from, [survives])].map(({ after, files }) => {
    const texts = files
      .filter(({ content }) => content !== undefined)
      .map(({ path, content = "" }) => `${path}=${Buffer.from(content, "base64")}`);
    return [`${after}:`, ...texts].join(" ");
  });
}

const leased = "cni/10.0.0.2=c1";

test.each<[Survival, string[]]>([
  [
    "everything",
    ["1:", "2: new=", "3: new=record", `5: ${leased} new=record`, `6: ${leased} old=record`],
  ],
  ["only what was synced", ["1:", `5: ${leased}`, `8: ${leased} old=record`]],
  [
    "names without content",
    ["1:", "2: new=", `5: ${leased} new=`, `6: ${leased} old=`, `7: ${leased} old=record`],
  ],
  [
    "half of the content",
    [
      "1:",
      "2: new=",
      "3: new=rec",
      `5: ${leased} new=rec`,
      `6: ${leased} old=rec`,
      `7: ${leased} old=record`,
    ],
  ],
  ["one entry lost", ["2:", `5: ${leased}`, `6: ${leased} old=record`, `6: ${leased} new=record`]],
  ["no leases", ["1:", "2: new=", "3: new=record", "6: old=record"]],
])("disks after a power loss: %s", (survives, expected) => {
  expect(disks(survives)).toEqual(expected);
});

test("a lease that is made during an fsync is not durable before what the fsync covers", () => {
  const { start, operations } = recording;
  const lease = operations.slice(3, 5);
  const syncs = [file, rootInode].map((inode) => ({ kind: "sync", inode, covers: 3 }) as const);
  const during = { start, operations: [...operations.slice(0, 3), ...lease, ...syncs] };
  const after = { start, operations: [...operations.slice(0, 3), ...syncs, ...lease] };
  expect(disks("only what was synced", during)).toEqual(["1:", `7: ${leased} new=record`]);
  const synced = ["1:", "5: new=record", `7: ${leased} new=record`];
  expect(disks("only what was synced", after)).toEqual(synced);
});

test("without fsyncs of directories, no file name counts as synced", () => {
  const changed = withoutSyncs(recording, "directories");
  expect(disks("only what was synced", changed)).toEqual(["1:", `5: ${leased}`]);
  expect(disks("names without content", changed)).toContain(`7: ${leased} old=record`);
});

test("without fsyncs of files, no file content counts as synced", () => {
  const changed = withoutSyncs(recording, "files");
  expect(disks("names without content", changed).at(-1)).toBe(`6: ${leased} old=`);
});
