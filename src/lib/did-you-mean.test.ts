import { expect, test } from "vitest";
import { didYouMean } from "./did-you-mean.ts";

const known = [
  "records",
  "doctor",
  "status",
  "gc",
  "config check",
  "logLevel",
  "namespaceIsolation",
];

test.each([
  ["recrods", "records"],
  ["record", "records"],
  ["doctr", "doctor"],
  ["stauts", "status"],
  ["gcc", "gc"],
  ["cg", "gc"],
  ["config", "config check"],
  ["loglevle", "logLevel"],
  ["namespace-isolation", "namespaceIsolation"],
])("didYouMean(%j) is %j", (word, name) => {
  expect(didYouMean(word, known)).toBe(`; did you mean ${name}?`);
});

test("didYouMean() compares two hundred names", () => {
  const others = Array.from({ length: 200 }, (_, i) => `network-${i}`);
  expect(didYouMean("doctr", ["doctor", ...others])).toBe("; did you mean doctor?");
  expect(didYouMean("doctr", [...others, "doctor"])).toBe("");
});

test.each(["frobnicate", "", "x", "doctor".repeat(50)])("didYouMean(%j) says nothing", (word) => {
  expect(didYouMean(word, known)).toBe("");
});
