import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

const root = join(import.meta.dirname, "../../../..");

/** The words with which action.yml calls docker. */
async function called(inputs: Readonly<Record<string, string>>): Promise<string[]> {
  const { runs } = parse(await readFile(join(root, "action.yml"), "utf8"));
  const dir = await temporaryDirectory();
  await writeFile(join(dir, "docker"), `#!/bin/sh\nprintf '%s\\n' "$@"\nexit 1\n`, { mode: 0o755 });
  const env = {
    PATH: `${dir}:${process.env.PATH}`,
    GITHUB_ACTION_PATH: root,
    GITHUB_WORKSPACE: "/w",
  };
  const { stdout, exitCode } = await execa("bash", ["-eo", "pipefail", "-c", runs.steps[0].run], {
    env: { ...env, PATHS: ".", ARGS: "", VERSION: "", ...inputs },
    reject: false,
  });
  expect(exitCode).toBe(1);
  const lines = stdout.split("\n");
  const removed = ["error", "warning"].map((each) => `::remove-matcher owner=plexus-${each}::`);
  expect(lines.splice(-2)).toEqual(removed);
  return lines;
}

test("the action runs check of the release that it belongs to, or of another", async () => {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const [matcher, ...words] = await called({});
  expect(matcher).toBe(`::add-matcher::${root}/.github/check-matcher.json`);
  const image = (tag: string) => [
    `ghcr.io/owner/repository:v${tag}`,
    "/plexus/plexusctl.js",
    "check",
  ];
  expect(words.slice(-5)).toEqual([...image(version), "--", "."]);
  const other = await called({ PATHS: "a b*", ARGS: "-n shop", VERSION: "v0.2.0" });
  expect(other.slice(-8)).toEqual([...image("0.2.0"), "-n", "shop", "--", "a", "b*"]);
});

test.each([
  [
    "a/b.yaml:12: spec.config: no: 1: x",
    "plexus-error",
    ["a/b.yaml", "12", "spec.config: no: 1: x"],
  ],
  ["b.yaml:1: warning: spec.config: x", "plexus-warning", ["b.yaml", "1", "spec.config: x"]],
])("the action's matcher makes an annotation of %j", async (line, name, parts) => {
  const text = await readFile(join(root, ".github/check-matcher.json"), "utf8");
  const { problemMatcher } = JSON.parse(text) as {
    problemMatcher: { owner: string; pattern: { regexp: string }[] }[];
  };
  const found = problemMatcher.flatMap(({ owner, pattern }) => {
    const match = new RegExp(pattern[0]?.regexp ?? "").exec(line);
    return match === null ? [] : [[owner, ...match.slice(1)]];
  });
  expect(found).toEqual([[name, ...parts]]);
});
