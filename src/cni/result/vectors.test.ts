import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { supportedVersions } from "#cni/versions.ts";
import { formatResult } from "./format.ts";
import { parseResult } from "./parse.ts";

/** Each input, converted by the Go library to each version: e2e/vectors/result-conversions.txt. */
interface Vector {
  readonly from: string;
  readonly to: string;
  readonly input: string;
  readonly output: string;
}

function readVectors(): Vector[] {
  const file = new URL("../../../e2e/vectors/result-conversions.txt", import.meta.url);
  const vectors: Vector[] = [];
  let source = { from: "", input: "" };
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [, arrow, version = "", json = ""] = /^(FROM| {2}->) (\S+) +(.*)$/.exec(line) ?? [];
    if (arrow === "FROM") source = { from: version, input: json };
    else if (arrow !== undefined) vectors.push({ ...source, to: version, output: json });
  }
  return vectors;
}

const vectors = readVectors();

test("the vectors cover all 49 conversions", () => {
  const pairs = supportedVersions.flatMap((from) => supportedVersions.map((to) => `${from} ${to}`));
  expect(vectors.map(({ from, to }) => `${from} ${to}`)).toEqual(pairs);
});

test.each(vectors)(
  "formatResult() converts $from to $to like the Go library, byte for byte [R-0.1-08] [R-0.3-01] [R-0.3-02] [R-0.3-03] [R-1.0-40] [R-1.1-41]",
  ({ input, to, output }) => {
    const result = parseResult(JSON.parse(input), { fallbackVersion: "" });
    expect(JSON.stringify(formatResult(result, to))).toBe(output);
  },
);

test.each(vectors)("parseResult() loses no field converted from $from to $to", ({ to, output }) => {
  const again = parseResult(JSON.parse(output), { fallbackVersion: "" });
  expect(again.cniVersion).toBe(to);
  expect(JSON.stringify(formatResult(again, to))).toBe(output);
});

/** What the reference plugins printed on ADD: e2e/vectors/reference-plugin-runs.txt. */
function readAddOutputs(): { network: string; printed: string }[] {
  const file = new URL("../../../e2e/vectors/reference-plugin-runs.txt", import.meta.url);
  const runs = readFileSync(file, "utf8").matchAll(/^== (\S+)\nADD rc=0 (\{.*\}) ERR:/gm);
  return [...runs].map(([, network = "", printed = ""]) => ({ network, printed }));
}

const addOutputs = readAddOutputs();

test("the vectors contain the runs of both releases of the reference plugins", () => {
  expect(addOutputs.length).toBeGreaterThanOrEqual(30);
});

test.each(addOutputs)("the printed result of $network is kept [R-1.0-40]", ({ printed }) => {
  const result = parseResult(JSON.parse(printed), { fallbackVersion: "" });
  expect(JSON.stringify(formatResult(result, result.cniVersion))).toBe(printed);
});
