import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";

const unit = join(root, "deploy/docker/plexus-docker.service");

/** The findings of systemd in the unit, whose program is installed. */
async function verify(change = (text: string) => text): Promise<string> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-unit-"));
  const path = join(dir.path, basename(unit));
  const changed = change(await readFile(unit, "utf8"));
  await writeFile(path, changed.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
  const flags = ["--man=no", "--recursive-errors=no"];
  const { all } = await execa("systemd-analyze", ["verify", ...flags, path], {
    all: true,
    reject: false,
  });
  return all;
}

test("systemd-analyze accepts the unit of the Docker driver, and finds a misspelled key", async () => {
  expect(await verify()).toBe("");
  expect(await verify((text) => text.replace("KillMode=", "KilMode="))).toContain("KilMode");
});
