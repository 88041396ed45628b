import { expect, test } from "vitest";
import { kubeconfigForLibrary } from "./kubeconfig-text.ts";

/** The error about a text, with its causes, as a log shows it. */
function refusal(text: string): string {
  try {
    kubeconfigForLibrary(text, "/etc");
  } catch (error) {
    const { message, stack, cause } = error as Error;
    return `${message}\n${stack}\n${String(cause)}`;
  }
  throw new Error("it was read");
}

test.each([
  "users: [{user: {token: *s3cret}}]",
  "users:\n- user:\n    token: |s3cret\n",
  "users:\n- user:\n    token: >s3cret\n",
  "users:\n- user:\n    token: 'x' s3cret\n",
  "users:\n\ttoken: s3cret",
  "s3cret",
  "a: b\n---\ntoken: s3cret\n",
])("what is no kubeconfig is refused without a word of it: %j", (text) => {
  expect(refusal(text)).not.toContain("s3cret");
});

test("what is no YAML is refused with the place", () => {
  expect(refusal("users:\n- user:\n    token: |s3cret\n")).toMatch(
    /^it is not YAML: [A-Z_]+ at line 3, column \d+\n/,
  );
  expect(refusal("a: *b")).toMatch(/^it is not YAML: its aliases cannot be resolved\n/);
});
