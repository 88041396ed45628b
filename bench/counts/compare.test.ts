import { expect, test } from "vitest";
import { differences, expectedCounts } from "./compare.ts";
import { fewest, systemCallsOf } from "./system-calls.ts";

const expected = expectedCounts();
const { ADD, DEL } = expected;

test("differences() names every count that is more or less than expected", () => {
  expect(differences(expected, expected, "x64")).toEqual([]);
  const systemCalls = { ...ADD.systemCalls, setns: 99 };
  const found = { ADD: { ...ADD, waits: 77, systemCalls }, DEL };
  expect(differences(expected, found, "x64")).toEqual([
    `ADD: waits 77, expected ${ADD.waits}`,
    `ADD: setns 99, expected ${ADD.systemCalls.setns ?? 0}`,
  ]);
  expect(differences(expected, found, "arm64")).toHaveLength(1);
});

test("differences() allows for the length of paths in what is written", () => {
  const { bytesWritten } = ADD;
  const of = (bytes: number) => ({ ADD: { ...ADD, bytesWritten: bytes }, DEL });
  expect(differences(expected, of(Math.ceil(bytesWritten * 1.04)))).toEqual([]);
  expect(differences(expected, of(Math.ceil(bytesWritten * 1.06)))).toHaveLength(1);
});

test("systemCallsOf() counts a shim and its children until they are plugins", () => {
  const log = [
    '7 execve("/bin/plexus", 0x1 /* 9 vars */) = 0',
    "7 brk(NULL) = 0x1",
    "7 pipe2([3<pipe:[1]>, 4<pipe:[1]>], O_CLOEXEC) = 0",
    "7 vfork( <unfinished ...>",
    "8 dup2(3, 0) = 0",
    '8 execve("/cni/ptp", 0x1 /* 9 vars */) = 0',
    "7 <... vfork resumed>) = 8",
    "8 read(0<pipe:[1]>, ..., 10) = 10",
    "9 epoll_wait(5, [], 1, 0) = 0",
    "7 exit_group(0) = ?",
  ].join("\n");
  expect(systemCallsOf({ shim: "/bin/plexus", plugins: "/cni" }, log)).toEqual({
    dup2: 1,
    execve: 1,
    exit_group: 1,
    pipe2: 1,
    vfork: 1,
  });
});

test("fewest() leaves out what some calls did without", () => {
  expect(fewest([{ read: 3, poll: 2 }, { read: 2 }])).toEqual({ read: 2 });
});
