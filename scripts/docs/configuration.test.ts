import { expect, test } from "vitest";
import { limits } from "#cni/limits.ts";
import { defaultConfig } from "#daemon/config/config.ts";
import { configSchema } from "#daemon/config/schema.ts";
import { defaultEngineConfig } from "#engine/config.ts";
import { renderConfigDocs } from "./configuration.ts";

const rows = renderConfigDocs()
  .split("\n")
  .filter((line) => line.startsWith("| `"));

const rowOf = (key: string): string => rows.find((row) => row.startsWith(`| \`${key}\` |`)) ?? "";

test("the documented defaults match the applied ones", () => {
  const { delegates: _none, ...applied } = defaultEngineConfig;
  for (const [key, value] of Object.entries({ ...configSchema.parse({}), ...applied })) {
    if (key === "primary") continue;
    expect(rowOf(key).split(" | ")[2], key).toBe(`\`${JSON.stringify(value)}\``);
  }
  expect(rowOf("primary.settleMs")).toContain(`\`${defaultConfig.nodeConf.settleMs}\``);
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
