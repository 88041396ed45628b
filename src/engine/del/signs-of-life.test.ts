import { expect, test } from "vitest";
import type { CallContext } from "#engine/call/call-context.ts";
import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import { isCertainlyOver, isNothingAt, replacedRecords } from "./signs-of-life.ts";

const path = "/run/netns/x";

function contextWith(prepare: (kernel: FakeKernel) => void): CallContext {
  const kernel = new FakeKernel();
  prepare(kernel);
  const deps = { bootId: () => "b1", clock: () => 9000, now: () => "2026-01-01T00:00:09.000Z" };
  return { deps, host: { netlink: kernel.transport } } as unknown as CallContext;
}

const exists = contextWith((kernel) => kernel.addNamespace(path));
const gone = contextWith(() => undefined);

test.each<[string, CallContext, netns: string, isNothing: boolean]>([
  ["a namespace", exists, path, false],
  ["nothing", gone, path, true],
  ["no path, whatever the empty path leads to", contextWith((k) => k.addNamespace("")), "", true],
  [
    "a file, where others may have a namespace",
    contextWith((k) => k.hideNamespace(path)),
    path,
    false,
  ],
  ["what cannot be opened", contextWith((k) => void k.failToOpen.add(path)), path, false],
])("isNothingAt() of %s", async (...row) => {
  const [, ctx, netns, isNothing] = row;
  expect(await isNothingAt(ctx, netns)).toBe(isNothing);
});

test("isNothingAt() fails if the shim has gone", async () => {
  const netlink = () => Promise.reject(new HostGoneError("gone"));
  const ctx = { host: { netlink } } as unknown as CallContext;
  await expect(isNothingAt(ctx, path)).rejects.toThrow(HostGoneError);
});

test("a sandbox is certainly over only by a sign and by its namespace", async () => {
  const record = { netns: path } as AttachmentRecord;
  expect(await isCertainlyOver(gone, record)).toBe(true);
  expect(await isCertainlyOver(exists, record)).toBe(false);
});

const ofProcess = { netns: "/proc/7/ns/net", netnsProcess: "1-net:[1]", bootId: "b0", clockMs: 5 };

test.each<[string, other: Partial<AttachmentRecord>, isOver: boolean]>([
  ["a later sandbox of another process", {}, true],
  ["one of the same process", { netnsProcess: ofProcess.netnsProcess }, false],
  ["one whose process is unknown", { netnsProcess: "" }, false],
  ["an earlier one", { clockMs: 1 }, false],
  ["one elsewhere", { netns: "/proc/77/ns/net" }, false],
])("a sandbox whose process has ended is over if at its path is %s", async (...row) => {
  const [, changes, isOver] = row;
  const other = { ...ofProcess, netnsProcess: "2-net:[2]", clockMs: 6, ...changes };
  const kernel = new FakeKernel();
  kernel.addNamespace(ofProcess.netns);
  const all = [ofProcess, other].map((record, index) => ({ ...record, containerId: `${index}` }));
  const load = async (key: { containerId: string }) => ({ record: all[Number(key.containerId)] });
  const deps = { bootId: () => "b1", records: { load } };
  const host = { netlink: kernel.transport, occupants: async () => all };
  const ctx = { deps, host } as unknown as CallContext;
  const record = ofProcess as AttachmentRecord;
  expect(await isCertainlyOver(ctx, record)).toBe(isOver);
});

test.each([
  ["b0", 9000, true],
  ["b1", 9000, false],
  ["", 9000, false],
  ["b0", 5999, false],
  ["b0", 6000, true],
])("signOfBoot() of a record of boot %j after %d ms", (bootId, clockMs, isEarlier) => {
  const record = { bootId, clockMs, createdAt: "2026-01-01T00:00:05.000Z" };
  expect(signOfBoot(record, gone.deps) !== undefined).toBe(isEarlier);
});

test.each([
  ["a static pod whose mirror was made anew", ["hash", "hash"], true],
  ["a pod that was made anew", ["uid-1", "uid-2"], false],
])("replacedRecords() of the sandboxes of %s", (_, calledUids, isReplaced) => {
  const records = calledUids.map((uid, i) => ({
    ...{ containerId: `c${i}`, bootId: "b1", clockMs: i, createdAt: "", addEnded: true },
    pod: { namespace: "default", name: "web", uid: `uid-${i + 1}` },
    attachments: [{ cniArgs: [["K8S_POD_UID", uid]] }],
  })) as unknown as AttachmentRecord[];
  expect(replacedRecords(records, "b1")).toEqual(isReplaced ? [records[0]] : []);
});
