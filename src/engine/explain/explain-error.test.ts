import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { explainError } from "./explain-error.ts";
import { explainedProblem } from "./explanation.ts";

test.each([
  ["Link not found", "MasterMissing"],
  ["the pool 10.0.0.0/24 is exhausted", "IpamExhausted"],
  ["the pool is full: exhausted retries", "IpamExhausted"],
  ["retries are exhausted, the pool is not", "PluginFailed"],
  ["an exhausted pool", "PluginFailed"],
])("the error of a plugin %j is %s", (message, finding) => {
  expect(explainError({ message }).finding).toBe(finding);
});

test.each([
  [{ network: "default/a", ifName: "x1" }, "default/a", "default/a (x1)"],
  [{ network: "default/a", ifName: "x1" }, undefined, "default/a (x1)"],
  [{ network: "default/a" }, undefined, "default/a"],
  [{ network: "default/a" }, "default/a (net1)", "default/a (net1)"],
])("the subject of the problem %j, with an error about %s, is %s", (problem, subject, shown) => {
  const error = new CniError("PluginMissing", "none", { subject });
  expect(explainedProblem({ ...problem, error }).subject).toBe(shown);
});
