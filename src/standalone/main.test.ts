import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("plexus-standalone --help says who starts it", () => {
  const main = join(import.meta.dirname, "main.ts");
  const { status, stdout } = spawnSync(process.execPath, [main, "--help"], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining("The shim") });
});
