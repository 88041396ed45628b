import { expect, test } from "vitest";
import { SharedLock } from "./shared-lock.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Notes when a lease is granted. */
function watched(lease: Promise<Disposable>): {
  held: () => boolean;
  release: () => Promise<void>;
} {
  let held = false;
  void lease.then(() => {
    held = true;
  });
  return { held: () => held, release: async () => (await lease)[Symbol.dispose]() };
}

test("SharedLock is held by many together", async () => {
  const lock = new SharedLock();
  const leases = [watched(lock.shared()), watched(lock.shared())];
  await turn();
  expect(leases.map((lease) => lease.held())).toEqual([true, true]);
});

test("SharedLock is held by one alone, after those before it and before those after it", async () => {
  const lock = new SharedLock();
  const before = [watched(lock.shared()), watched(lock.shared())];
  const alone = watched(lock.exclusive());
  const after = watched(lock.shared());
  await turn();
  expect([alone.held(), after.held()]).toEqual([false, false]);
  await before[0]!.release();
  await turn();
  expect(alone.held()).toBe(false);
  await before[1]!.release();
  await turn();
  expect([alone.held(), after.held()]).toEqual([true, false]);
  await alone.release();
  await turn();
  expect(after.held()).toBe(true);
});

test("SharedLock never has two holders alone", async () => {
  const lock = new SharedLock();
  const first = watched(lock.exclusive());
  const second = watched(lock.exclusive());
  await turn();
  expect([first.held(), second.held()]).toEqual([true, false]);
  await first.release();
  await turn();
  expect(second.held()).toBe(true);
});

test("SharedLock counts a lease that is disposed of twice once", async () => {
  const lock = new SharedLock();
  const first = await lock.shared();
  const second = watched(lock.shared());
  const alone = watched(lock.exclusive());
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await turn();
  expect(alone.held()).toBe(false);
  await second.release();
  await turn();
  expect(alone.held()).toBe(true);
});

test("SharedLock.tryShared() fails while a writer holds or waits for the lock", async () => {
  const lock = new SharedLock();
  const first = lock.tryShared();
  expect(first).toBeDefined();
  const second = lock.tryShared();
  const alone = lock.exclusive();
  expect(lock.tryShared()).toBeUndefined();
  first?.[Symbol.dispose]();
  second?.[Symbol.dispose]();
  const held = await alone;
  expect(lock.tryShared()).toBeUndefined();
  held[Symbol.dispose]();
  expect(lock.tryShared()).toBeDefined();
});
