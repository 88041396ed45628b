import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { collectFailures, combineErrors } from "./failures.ts";

test("collectFailures() runs the step for every item and returns the failed ones in order", async () => {
  const seen: number[] = [];
  const failures = await collectFailures([1, 2, 3, 4], async (item) => {
    seen.push(item);
    if (item % 2 === 0) throw new CniError(100 + item, `no ${item}`);
  });
  expect(seen).toEqual([1, 2, 3, 4]);
  expect(failures.map(({ item, error }) => [item, error.code])).toEqual([
    [2, 102],
    [4, 104],
  ]);
});

test("collectFailures() stops at once if the shim has disconnected", async () => {
  const seen: number[] = [];
  const gone = new HostGoneError("the shim has gone");
  const step = async (item: number): Promise<void> => {
    seen.push(item);
    throw item === 1 ? new Error("failed") : gone;
  };
  await expect(collectFailures([1, 2, 3], step)).rejects.toBe(gone);
  expect(seen).toEqual([1, 2]);
});

test("combineErrors() returns a single error unchanged and combines several with code 102", () => {
  const first = new CniError(11, "busy");
  expect(combineErrors([first], "1 failed")).toBe(first);
  expect(combineErrors([first, new CniError(5, "locked")], "2 failed")).toMatchObject({
    code: 102,
    message: "2 failed: busy; locked",
    cause: { errors: [first, { code: 5, message: "locked" }] },
  });
});
