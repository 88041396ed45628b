import fc from "fast-check";
import { expect, test } from "vitest";
import { inputsOf } from "./inputs.ts";
import { judge } from "./judge.ts";
import type { Target } from "./target.ts";

/** A former reader of the engine that takes quadratic time on blanks. */
const quadratic: Target = {
  maxLength: 30_000,
  inputs: fc.constant("a message"),
  tokens: [" ", "x"],
  read: (input) => void input.replaceAll(/\s*\n\s*/g, " "),
};

test("the fuzzer finds a reader that takes quadratic time", async () => {
  const judged = fc.asyncProperty(inputsOf(quadratic, []), (input) => judge(quadratic, input));
  const { failed, errorInstance } = await fc.check(judged, {
    seed: 1,
    numRuns: 500,
    endOnFailure: true,
  });
  expect(failed).toBe(true);
  expect(String(errorInstance)).toMatch(/\d+ ms of processor time, more than 100/);
}, 60_000);

test("the fuzzer finds an input that makes a reader throw, within the length limit", async () => {
  const target: Target = {
    ...quadratic,
    read: (input) => {
      if (input.length > quadratic.maxLength) throw new Error("too long");
      if (input.includes("xx")) throw new Error("two of them");
    },
  };
  const judged = fc.asyncProperty(inputsOf(target, ["x"]), (input) => judge(target, input));
  const { errorInstance } = await fc.check(judged, { seed: 1, numRuns: 500 });
  expect(String(errorInstance)).toBe("Error: two of them");
}, 60_000);
