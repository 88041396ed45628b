import { beforeEach, expect, test } from "vitest";
import * as fs from "../node-modules/fs.ts";
import * as promises from "../node-modules/fs-promises.ts";
import { ProcessEndedError } from "./disk/errors.ts";
import { Disk } from "./disk.ts";
import type { DiskFault } from "./faults.ts";
import { Random } from "./random.ts";
import { Process, Schedule } from "./schedule.ts";
import { enterWorld, type World } from "./world.ts";

const dir = "/var/lib/plexus";
const record = `${dir}/a@eth0.record`;

/** What the next changes of the disk get. */
let faults: DiskFault[] = [];
let schedule: Schedule;
let disk: Disk;
let plexusd: Process;

function begin(seed: number): void {
  const random = new Random(seed);
  schedule = new Schedule(random);
  disk = new Disk();
  faults = [];
  plexusd = new Process("plexusd");
  enterWorld({
    random,
    schedule,
    disk,
    faults: { disk: () => faults.shift() ?? "none" },
    kernel: { bootId: "1-2-3", clockFromUs: 0, lockedInodes: () => [7, 12] },
    clockOffsetMs: 0,
    losePower: () => schedule.kill(plexusd),
    note: () => undefined,
  } as unknown as World);
}

beforeEach(() => begin(1));

/** Runs a function as plexusd, and what follows until that time. */
async function asPlexusd(run: () => unknown, untilUs = 1e6): Promise<void> {
  let isOver = false;
  schedule.at(0, () => void run(), plexusd);
  // What follows in the test is outside.
  schedule.at(untilUs, () => {
    isOver = true;
  });
  await schedule.run(() => isOver);
}

/** Runs a function as plexusd. @returns what it throws */
async function failureOf(run: () => unknown): Promise<unknown> {
  let failure: unknown;
  await asPlexusd(async () => {
    try {
      await run();
    } catch (error) {
      failure = error;
    }
  });
  return failure;
}

/** The files in the state directory as `name=content`. */
function files(): string[] {
  return disk
    .list(dir)
    .map(([name]) => `${name}=${disk.readFile(`${dir}/${name}`)}`)
    .toSorted();
}

test.each<[string, () => unknown, string]>([
  ["open", () => fs.openSync(`${dir}/x`), `ENOENT: no such file or directory, open '${dir}/x'`],
  ["open wx", () => fs.openSync(dir, "wx"), `EEXIST: file already exists, open '${dir}'`],
  [
    "open w",
    () => fs.openSync(dir, "w"),
    `EISDIR: illegal operation on a directory, open '${dir}'`,
  ],
  ["read", () => promises.readFile(dir), "EISDIR: illegal operation on a directory, read"],
  ["close", () => fs.closeSync(99), "EBADF: bad file descriptor, close"],
  [
    "rename",
    () => promises.rename(`${dir}/x`, `${dir}/y`),
    `ENOENT: no such file or directory, rename '${dir}/x' -> '${dir}/y'`,
  ],
  ["readdir", () => promises.readdir("/x/y"), "ENOENT: no such file or directory, scandir '/x/y'"],
  ["rm", () => fs.rmSync(`${dir}/x`), `ENOENT: no such file or directory, lstat '${dir}/x'`],
  [
    "below a file",
    () => {
      disk.writeFile(record, "");
      fs.openSync(`${record}/x`);
    },
    `ENOTDIR: not a directory, open '${record}/x'`,
  ],
  [
    "write to what is open for reading",
    () => {
      disk.writeFile(record, "");
      fs.writeSync(fs.openSync(record), Buffer.from("x"));
    },
    "EBADF: bad file descriptor, write",
  ],
])("errors are those of Node: %s", async (_, run, message) => {
  const failure = await failureOf(run);
  expect(failure).toMatchObject({ message, code: message.split(":")[0] });
  expect(failure).toHaveProperty("errno", expect.any(Number));
});

test("a file is written, appended to, cut, renamed and removed", async () => {
  const failure = await failureOf(async () => {
    await using file = await promises.open(`${dir}/new`, "wx", 0o640);
    await file.writeFile("one");
    await promises.rename(`${dir}/new`, record);
    const fd = fs.openSync(record, "r+");
    fs.writeSync(fd, Buffer.from("-two"), 0, 4, 3);
    fs.writeSync(fd, Buffer.from("__ONE"), 2, 2, 0);
    fs.ftruncateSync(fd, 6);
    expect(fs.readFileSync(fd).toString()).toBe("ONe-tw");
    expect(disk.openCount(plexusd)).toBe(2);
    fs.closeSync(fd);
    const found = await promises.lstat(record);
    expect(found).toMatchObject({
      mode: 0o100640,
      size: 6,
      nlink: 1,
      ino: fs.lstatSync(record).ino,
    });
    expect([found.isFile(), found.isDirectory()]).toEqual([true, false]);
    expect(disk.size("/var/lib")).toEqual({ files: 1, bytes: 6 });
    await promises.rm(record);
    expect((await file.stat()).nlink).toBe(0);
    expect(await promises.readdir(dir)).toEqual([]);
  });
  expect(failure).toBeUndefined();
  expect(disk.openCount(plexusd)).toBe(0);
});

test("directories, /proc and installed files", async () => {
  disk.install("/etc/cni/net.d/10-a.conflist", "{}");
  const failure = await failureOf(async () => {
    expect(await promises.mkdir(`${dir}/a/b`, { recursive: true })).toBe(`${dir}/a`);
    expect(await promises.mkdir(`${dir}/a/b`, { recursive: true })).toBeUndefined();
    const [entry] = await promises.readdir("/etc/cni/net.d", { withFileTypes: true });
    expect([entry?.name, entry?.isFile()]).toEqual(["10-a.conflist", true]);
    expect((await promises.stat("/var/lib")).isDirectory()).toBe(true);
    expect(await promises.readFile("/proc/sys/kernel/random/boot_id", "utf8")).toBe("1-2-3\n");
    const locks = await promises.readFile("/proc/locks", "utf8");
    // As src/records/sweep.ts reads it.
    const inodes = Array.from(locks.matchAll(/ [0-9a-f]+:[0-9a-f]+:(\d+) /g), ([, inode]) => inode);
    expect(inodes).toEqual(["7", "12"]);
  });
  expect(failure).toBeUndefined();
});

test("a process that is killed changes nothing more, and has no open files", async () => {
  faults = ["none", "process killed"];
  let failure: unknown;
  let resolved = false;
  await asPlexusd(() => {
    void promises.unlink(record).finally(() => {
      resolved = true;
    });
    try {
      fs.writeSync(fs.openSync(record, "wx"), Buffer.from("text"));
    } catch (error) {
      failure = error;
    }
    expect(() => disk.unlink(record)).toThrow(ProcessEndedError);
  });
  expect(failure).toBeInstanceOf(ProcessEndedError);
  expect([files(), resolved, plexusd.isAlive]).toEqual([["a@eth0.record="], false, false]);
  expect(disk.openCount(plexusd)).toBe(0);
});

test("a full disk takes nothing or half of a write", async () => {
  const left = new Set<string>();
  for (let seed = 0; seed < 20; seed++) {
    begin(seed);
    faults = ["none", "ENOSPC"];
    const failure = await failureOf(() => disk.writeFile(record, "text"));
    expect(failure).toMatchObject({ message: "ENOSPC: no space left on device, write" });
    left.add(files().join());
  }
  expect([...left].toSorted()).toEqual(["a@eth0.record=", "a@eth0.record=te"]);
});

/** Writes a file, makes it durable as far as asked, loses power, and starts again with many seeds. */
async function remains(sync: (fd: number) => unknown, untilUs?: number): Promise<string[]> {
  const found = new Set<string>();
  for (let seed = 0; seed < 200; seed++) {
    begin(seed);
    disk.install("/run/file", "");
    await asPlexusd(async () => {
      const fd = fs.openSync(`${dir}/new`, "wx", 0o600);
      fs.writeSync(fd, Buffer.from("text"));
      await sync(fd);
    }, untilUs);
    schedule.kill(plexusd);
    disk.restart(schedule.nowUs);
    expect(disk.exists("/run/file")).toBe(false);
    expect(disk.exists("/run")).toBe(true);
    const left = files();
    // What is durable now stays durable.
    disk.restart(schedule.nowUs);
    expect(files()).toEqual(left);
    found.add(left.join());
  }
  return [...found].toSorted();
}

function synced(fd: number): Promise<void> {
  return new Promise((resolve) => {
    fs.fsync(fd, () => resolve());
  });
}

test("a power loss takes what was not synced, in every way", async () => {
  expect(await remains(() => undefined)).toEqual(["", "new=", "new=te", "new=text"]);
  // The name is lost only until the directory is synced, the content until the file is.
  expect(await remains(synced)).toEqual(["", "new=text"]);
  expect(await remains(() => synced(fs.openSync(dir)))).toEqual(["new=", "new=te", "new=text"]);
  const both = (fd: number): unknown => Promise.all([synced(fd), synced(fs.openSync(dir))]);
  expect(await remains(both)).toEqual(["new=text"]);
  // An fsync takes at least 200 µs.
  expect(await remains(both, 1)).toEqual(["", "new=", "new=te", "new=text"]);
});

test("a rename that was not synced may be undone, and files keep mode, inode and time", async () => {
  const found = new Set<string>();
  for (let seed = 0; seed < 100; seed++) {
    begin(seed);
    disk.install(record, "old", 0o700);
    const before = disk.stat(record);
    await asPlexusd(() => disk.rename(record, `${dir}/b`), 10);
    disk.restart(schedule.nowUs);
    const [file = ""] = files();
    const { ino, mode, mtimeMs } = disk.stat(`${dir}/${file.slice(0, file.indexOf("="))}`);
    expect({ ino, mode, mtimeMs }).toMatchObject({ ino: before.ino, mode: 0o100700, mtimeMs: 0 });
    found.add(files().join());
  }
  expect([...found].toSorted()).toEqual(["a@eth0.record=old", "b=old"]);
});

test("the same seed leaves the same", async () => {
  const run = async (seed: number): Promise<string[]> => {
    begin(seed);
    await asPlexusd(async () => {
      for (const name of "abcdefgh") await promises.writeFile(`${dir}/${name}`, `text ${name}`);
    }, 600);
    disk.restart(schedule.nowUs);
    return files();
  };
  for (const seed of [1, 2, 3, 4, 5]) expect(await run(seed)).toEqual(await run(seed));
});
