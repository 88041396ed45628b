import { expect, test } from "vitest";
import { HostGoneError } from "#engine/ports/host.ts";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import type { CallContext } from "./call-context.ts";
import { isCertainlyOver, isNothingAt, isOfEarlierBoot, notListed } from "./signs-of-life.ts";

const path = "/run/netns/x";

function contextWith(prepare: (kernel: FakeKernel) => void): CallContext {
  const kernel = new FakeKernel();
  prepare(kernel);
  const deps = { bootId: () => "b1" };
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
  const record = { netns: path };
  expect(await isCertainlyOver(gone, record, notListed)).toBe(true);
  expect(await isCertainlyOver(gone, record, undefined)).toBe(false);
  expect(await isCertainlyOver(exists, record, notListed)).toBe(false);
});

test.each([
  ["b0", gone, true],
  ["b1", gone, false],
  ["", gone, false],
  ["b0", exists, false],
])("isOfEarlierBoot() of a record of boot %j", async (bootId, ctx, isEarlier) => {
  expect(await isOfEarlierBoot(ctx, { netns: path, bootId } as never)).toBe(isEarlier);
});
