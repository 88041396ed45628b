import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { generatedPages } from "./pages.ts";

test.each(generatedPages())("%s is up to date; `make docs` writes it", (path, text) => {
  expect(readFileSync(path, "utf8"), "run: make docs").toBe(text);
});
