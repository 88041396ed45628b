import { cp, mkdtempDisposable, readFile, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";

/** What `make image` and `make release` make their files of. */
const sources = ["Makefile", "LICENSE", "NOTICE", "CHANGELOG.md", "crds", "deploy", "e2e"].concat([
  "package.json",
  "package-lock.json",
  "scripts",
  "shim",
  "src",
  "tsconfig.json",
]);

const outputs = ["plexus", "plexusd.js", "plexusctl.js", "plexus-standalone", "plexus-image.tar"];

/** Checksums of the files of a build, and of its release's files. */
async function checksums(directory: string): Promise<string> {
  const { stdout } = await execa("sha256sum", outputs, { cwd: join(directory, "dist") });
  return `${stdout}\n${await readFile(join(directory, "dist/release/SHA256SUMS"), "utf8")}`;
}

test("a second build, later and in another directory, gives the same image and the same SHA256SUMS", async () => {
  const commit = (await execa("git", ["rev-parse", "--short=12", "HEAD"], { cwd: root })).stdout;
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-another-directory-"));
  for (const name of sources)
    await cp(join(root, name), join(work.path, name), {
      recursive: true,
      preserveTimestamps: true,
    });
  await symlink(join(root, "node_modules"), join(work.path, "node_modules"));
  await execa("make", ["image", "release", `COMMIT=${commit}`], { cwd: work.path });
  expect(await checksums(work.path)).toBe(await checksums(root));
}, 600_000);
