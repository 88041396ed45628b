import { expect, test } from "vitest";
import { limits } from "#cni/limits.ts";
import { configKeys, renderConfigDocs } from "./configuration.ts";

const rows = renderConfigDocs()
  .split("\n")
  .filter((line) => line.startsWith("| `"));

test.each(configKeys())("the schema of %s accepts its default", (_, { schema, default: value }) => {
  if (value !== undefined) expect(schema().parse(value)).toEqual(value);
});

test("every limit is documented", () => {
  const rows = renderConfigDocs().split("## Limits")[1] ?? "";
  expect(rows.match(/^\| .+ \| \d+( [KM]iB)? \|$/gm)).toHaveLength(Object.keys(limits).length);
  expect(rows).toContain("| plugins of one network | 32 |");
  expect(rows).toContain("| `CNI_ARGS` of a call | 32 KiB |");
});

test("every key is described", () => {
  expect(rows.length).toBeGreaterThan(20);
  expect(rows.filter((row) => !/ \| \S.* \|$/.test(row))).toEqual([]);
});
