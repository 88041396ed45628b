import { expect, test } from "vitest";
import { chunks } from "./chunks.ts";

test.each([
  [[], []],
  [[1], [[1]]],
  [[1, 2], [[1, 2]]],
  [
    [1, 2, 3],
    [[1, 2], [3]],
  ],
])("chunks(%j, 2) is %j", (items, expected) => {
  expect(chunks<number>(items, 2)).toEqual(expected);
});
