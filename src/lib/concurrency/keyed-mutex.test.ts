import { expect, test } from "vitest";
import { KeyedMutex } from "./keyed-mutex.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("KeyedMutex gives a key to one holder at a time, first come first served", async () => {
  const mutex = new KeyedMutex();
  const seen: string[] = [];
  const work = async (name: string): Promise<void> => {
    using _held = await mutex.acquire("c1");
    seen.push(`${name} in`);
    await turn();
    seen.push(`${name} out`);
  };
  await Promise.all(["a", "b", "c"].map(work));
  expect(seen).toEqual(["a in", "a out", "b in", "b out", "c in", "c out"]);
});

test("KeyedMutex lets different keys be held together", async () => {
  const mutex = new KeyedMutex();
  const one = await mutex.acquire("c1");
  const other = await mutex.acquire("c2");
  expect(mutex.size).toBe(2);
  one[Symbol.dispose]();
  other[Symbol.dispose]();
});

test("KeyedMutex forgets free keys", async () => {
  const mutex = new KeyedMutex();
  const first = await mutex.acquire("c1");
  const second = mutex.acquire("c1");
  first[Symbol.dispose]();
  expect(mutex.size).toBe(1);
  (await second)[Symbol.dispose]();
  expect(mutex.size).toBe(0);
});

test("KeyedMutex is released once, however often it is disposed of", async () => {
  const mutex = new KeyedMutex();
  const first = await mutex.acquire("c1");
  const second = mutex.acquire("c1");
  const third = mutex.acquire("c1");
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  let thirdHeld = false;
  void third.then(() => {
    thirdHeld = true;
  });
  const held = await second;
  await turn();
  expect(thirdHeld).toBe(false);
  held[Symbol.dispose]();
  await third;
});

test("KeyedMutex is released by a holder that fails", async () => {
  const mutex = new KeyedMutex();
  const failing = async (): Promise<void> => {
    using _held = await mutex.acquire("c1");
    throw new Error("failed");
  };
  await expect(failing()).rejects.toThrow("failed");
  (await mutex.acquire("c1"))[Symbol.dispose]();
});

test("KeyedMutex.tryAcquire() takes only free keys", async () => {
  const mutex = new KeyedMutex();
  const held = mutex.tryAcquire("c1");
  expect(held).toBeDefined();
  expect(mutex.tryAcquire("c1")).toBeUndefined();
  expect(mutex.tryAcquire("c2")).toBeDefined();
  const next = mutex.acquire("c1");
  held?.[Symbol.dispose]();
  expect(mutex.tryAcquire("c1")).toBeUndefined();
  (await next)[Symbol.dispose]();
  expect(mutex.tryAcquire("c1")).toBeDefined();
});
