import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { collectErrors, combineErrors } from "./failures.ts";

test("collectErrors() runs the step for every item and returns the errors in order", async () => {
  const seen: number[] = [];
  const errors = await collectErrors([1, 2, 3, 4], async (item) => {
    seen.push(item);
    if (item % 2 === 0) throw new CniError(100 + item, `no ${item}`);
  });
  expect(seen).toEqual([1, 2, 3, 4]);
  expect(errors.map(({ code }) => code)).toEqual([102, 104]);
});

test("collectErrors() stops at once if the shim has disconnected", async () => {
  const seen: number[] = [];
  const gone = new HostGoneError("the shim has gone");
  const step = async (item: number): Promise<void> => {
    seen.push(item);
    throw item === 1 ? new Error("failed") : gone;
  };
  await expect(collectErrors([1, 2, 3], step)).rejects.toBe(gone);
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
