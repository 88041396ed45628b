import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { KeyedMutex } from "./keyed-mutex.ts";

test("KeyedMutex gives a key to one holder at a time, first come first served, even if one fails", async () => {
  const mutex = new KeyedMutex();
  const seen: string[] = [];
  const work = async (name: string): Promise<void> => {
    using _held = await mutex.acquire("c1");
    seen.push(`${name} in`);
    await turn();
    seen.push(`${name} out`);
    throw new Error(name);
  };
  await Promise.allSettled(["a", "b", "c"].map(work));
  expect(seen).toEqual(["a in", "a out", "b in", "b out", "c in", "c out"]);
  expect(mutex.tryAcquire("c1")).toBeDefined();
});

test("KeyedMutex is released once, however often it is disposed of", async () => {
  const mutex = new KeyedMutex();
  const first = await mutex.acquire("c1");
  const second = mutex.acquire("c1");
  let thirdHeld = false;
  const third = mutex.acquire("c1").finally(() => {
    thirdHeld = true;
  });
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  const held = await second;
  await turn();
  expect(thirdHeld).toBe(false);
  held[Symbol.dispose]();
  await third;
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
