import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { newestChanges } from "./changes.ts";

test("newestChanges() has each item of the newest section, as plain text", () => {
  const changelog = `# Changelog

## 0.2.0

- First, with [a link](docs/a.md#b), that
  is long.

### Part

- Second.

## 0.1.0

- Older.
`;
  expect(newestChanges(changelog)).toEqual(["First, with a link, that is long.", "Second."]);
});

test("CHANGELOG.md has nothing that newestChanges() would leave out", () => {
  const changelog = readFileSync(new URL("../../CHANGELOG.md", import.meta.url), "utf8");
  const [, newest = ""] = changelog.split("\n## ");
  const changes = newestChanges(changelog);
  expect(changes).toHaveLength(newest.split("\n- ").length - 1);
  expect(changes.join(" ")).not.toContain("](");
});
