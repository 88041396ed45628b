import { readFile } from "node:fs";
import { expect, test } from "vitest";
import { nextTurn } from "./next-turn.ts";

test("nextTurn() runs what was started before, except I/O that is not ready", async () => {
  const order: string[] = [];
  const read = new Promise<void>((resolve) => {
    readFile(import.meta.filename, () => {
      order.push("read");
      resolve();
    });
  });
  const turn = nextTurn().then(() => order.push("next turn"));
  void Promise.resolve().then(() => order.push("microtask"));
  await Promise.all([read, turn]);
  expect(order).toEqual(["microtask", "next turn", "read"]);
});
