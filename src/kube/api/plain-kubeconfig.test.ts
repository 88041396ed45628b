import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readPlainKubeconfig } from "./plain-kubeconfig.ts";

const dir = mkdtempSync(join(tmpdir(), "plexus-kubeconfig-"));
afterAll(() => rmSync(dir, { recursive: true }));

/** The error about a text, with its causes, as a log shows it. */
function refusal(text: string): string {
  const path = join(dir, "kubeconfig");
  writeFileSync(path, text);
  try {
    readPlainKubeconfig(path);
  } catch (error) {
    const { message, stack, cause } = error as Error;
    return `${message}\n${stack}\n${String(cause)}`;
  }
  throw new Error("it was read");
}

test.each([
  ["users: [{user: {token: *s3cret}}]", /: it is not YAML: its aliases cannot be resolved\n/],
  ["users:\n- user:\n    token: |s3cret\n", /: it is not YAML: [A-Z_]+ at line 3, column \d+\n/],
  ["users:\n- user:\n    token: >s3cret\n", /: it is not YAML: /],
  ["users:\n- user:\n    token: 'x' s3cret\n", /: it is not YAML: /],
  ["users:\n\ttoken: s3cret", /: it is not YAML: /],
  ["s3cret", /: it is not a YAML mapping\n/],
  ["a: b\n---\ntoken: s3cret\n", /: it has several YAML documents\n/],
])("an invalid kubeconfig is rejected without quoting its content: %j", (text, message) => {
  expect(refusal(text)).toMatch(message);
  expect(refusal(text)).not.toContain("s3cret");
});
