import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { SharedLock } from "./shared-lock.ts";

/** Requests leases in the given order: `s` shared, `x` exclusive. */
function requested(kinds: string) {
  const lock = new SharedLock();
  const granted: number[] = [];
  const leases = [...kinds].map((kind, index) => {
    const lease = kind === "x" ? lock.exclusive() : lock.shared();
    return lease.finally(() => granted.push(index));
  });
  const release = async (index: number): Promise<void> => {
    (await leases[index])?.[Symbol.dispose]();
    await turn();
  };
  return { lock, granted, release };
}

test("SharedLock is held by many readers or one writer, in the order of requests", async () => {
  const { granted, release } = requested("ssxsx");
  await turn();
  expect(granted).toEqual([0, 1]);
  await release(0);
  // A second release has no effect.
  await release(0);
  expect(granted).toEqual([0, 1]);
  await release(1);
  expect(granted).toEqual([0, 1, 2]);
  await release(2);
  expect(granted).toEqual([0, 1, 2, 3]);
  await release(3);
  expect(granted).toEqual([0, 1, 2, 3, 4]);
});

test("SharedLock.tryShared() fails while a writer holds or waits for the lock", async () => {
  const { lock, release } = requested("sx");
  expect(lock.tryShared()).toBeUndefined();
  await release(0);
  expect(lock.tryShared()).toBeUndefined();
  await release(1);
  expect([lock.tryShared(), lock.tryShared()]).not.toContain(undefined);
});

test("SharedLock.exclusive() gives up when its signal fires, and holds back no reader then", async () => {
  const lock = new SharedLock();
  const reader = await lock.shared();
  const limit = new AbortController();
  const writer = lock.exclusive(limit.signal);
  const later = lock.shared();
  limit.abort(new Error("no time"));
  await expect(writer).rejects.toThrow("no time");
  await expect(lock.exclusive(limit.signal)).rejects.toThrow("no time");
  for (const lease of [reader, await later]) lease[Symbol.dispose]();
  const granted = new AbortController();
  const lease = await lock.exclusive(granted.signal);
  granted.abort();
  expect(lock.tryShared()).toBeUndefined();
  lease[Symbol.dispose]();
  expect(lock.tryShared()).toBeDefined();
});
