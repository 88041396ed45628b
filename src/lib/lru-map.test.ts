import { expect, test } from "vitest";
import { LruMap } from "./lru-map.ts";

test("LruMap makes a value again only after its key was evicted", () => {
  const map = new LruMap<number>(2);
  let made = 0;
  const use = (key: string): number => map.getOrMake(key, () => ++made);
  expect([use("a"), use("b"), use("a"), use("c"), use("a"), use("b")]).toEqual([1, 2, 1, 3, 1, 4]);
});

test("LruMap evicts the entry that was set or made least recently; peek() does not count", () => {
  const map = new LruMap<number>(2);
  map.set("a", 1);
  map.set("b", 2);
  expect(map.peek("a")).toBe(1);
  map.set("c", 3);
  expect([map.peek("a"), map.peek("b"), map.peek("c")]).toEqual([undefined, 2, 3]);
  map.delete("b");
  expect([...map.entries()]).toEqual([["c", 3]]);
});
