import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { repository, withRepository } from "./repository.ts";

const root = join(import.meta.dirname, "../..");

/** The files of the repository with this text, in any case. */
function filesWith(text: string): string[] {
  const flags = ["grep", "--files-with-matches", "--ignore-case", "-I", "--fixed-strings"];
  const listed = execFileSync("git", [...flags, text], { cwd: root, encoding: "utf8" });
  return listed.trimEnd().split("\n");
}

test("every file that names the repository has the name of package.json, where `make docs REPOSITORY=…` replaces it", () => {
  const [, owner, name] = new URL(repository).pathname.split("/");
  const named = filesWith(`${owner}/${name}`);
  expect(named).toEqual(expect.arrayContaining(["README.md", "package.json"]));
  for (const file of [...named, ".github/CODEOWNERS"]) {
    const text = readFileSync(join(root, file), "utf8");
    const [first, second] = [
      "https://github.com/Some.One/Plexus",
      "https://github.com/another/one",
    ];
    const renamed = withRepository(text, first);
    expect(renamed.toLowerCase(), file).not.toContain(`${owner}/${name}`.toLowerCase());
    expect(renamed, file).not.toContain(`@${owner}/`);
    expect(withRepository(renamed, second, first), file).toBe(withRepository(text, second));
  }
});

test("the packages for npm name the repository, which npm compares with that of the workflow", () => {
  for (const folder of ["packages/npwg", "e2e/npwg-conformance"]) {
    const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    expect(manifest.repository).toEqual({
      type: "git",
      url: `git+${repository}.git`,
      directory: folder,
    });
  }
});

test("OWNERS names the roles of GOVERNANCE.md", () => {
  const parsed = (file: string) => parse(readFileSync(join(root, file), "utf8"));
  const { approvers, reviewers } = parsed("OWNERS");
  expect({ approvers, reviewers }).toEqual({
    approvers: ["plexus-maintainers"],
    reviewers: ["plexus-reviewers"],
  });
  expect(Object.keys(parsed("OWNERS_ALIASES").aliases)).toEqual([...approvers, ...reviewers]);
  const governance = readFileSync(join(root, "GOVERNANCE.md"), "utf8");
  for (const role of ["maintainer", "reviewer"]) expect(governance).toContain(`| ${role} |`);
});
