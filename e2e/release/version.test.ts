import { cp, mkdtempDisposable, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";

const sources = [
  "LICENSE",
  "Makefile",
  "NOTICE",
  "deploy",
  "package.json",
  "package-lock.json",
  "scripts",
  "shim",
  "src",
];

/** The versions of the programs in dist/ and of the image's label. */
async function builtVersions(cwd: string): Promise<string[]> {
  const node = join(root, "node_modules/.bin/node");
  const asking = [
    execa(join(cwd, "dist/plexus"), ["--version"]),
    // It fails, because no plexusd answers.
    execa(node, ["dist/plexusctl.js", "version"], { cwd, reject: false }),
    execa(node, ["dist/plexusd.js", "--version"], { cwd }),
    execa("tar", ["-xOf", "dist/plexus-image.tar", "config.json"], { cwd }),
  ];
  const answers = (await Promise.all(asking)).map(({ stdout }) => stdout);
  const label = /"org\.opencontainers\.image\.version":"([^"]*)"/.exec(answers.pop() ?? "")?.[1];
  return [...answers, label ?? "no label"].map(
    (text) => /\d+\.\d+\.\d+\S*/.exec(text)?.[0] ?? text,
  );
}

test("`make image VERSION=…` rebuilds everything that contains another version, and nothing of the same", async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-version-"));
  const cwd = work.path;
  for (const name of sources) {
    await cp(join(root, name), join(cwd, name), { recursive: true, preserveTimestamps: true });
  }
  await symlink(join(root, "node_modules"), join(cwd, "node_modules"));
  for (const version of ["1.2.3", "2.0.0-rc.1"]) {
    await execa("make", ["image", `VERSION=${version}`], { cwd });
    expect(await builtVersions(cwd)).toEqual(Array(4).fill(version));
  }
  const { stdout } = await execa("make", ["build", "VERSION=2.0.0-rc.1"], { cwd });
  expect(stdout).not.toContain("bundle.ts");
  expect(stdout).not.toContain("-o ../dist/plexus");
}, 300_000);
