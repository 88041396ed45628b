import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { renderConfigDocs } from "./docs.ts";
import { configSchema } from "./schema.ts";

test("docs/configuration.md is what scripts/config-docs.ts makes of the schema", async () => {
  const written = await readFile(
    new URL("../../../docs/configuration.md", import.meta.url),
    "utf8",
  );
  expect(written, "run: npx node scripts/config-docs.ts").toBe(renderConfigDocs());
});

test("every key is described", () => {
  for (const [key, schema] of Object.entries(configSchema.shape)) {
    expect(schema.unwrap().description, key).toBeTruthy();
  }
});
