// SPDX-License-Identifier: Apache-2.0

import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";

const unit = join(root, "deploy/docker/plexus-docker.service");

/** What systemd says of a unit whose program is installed. */
async function verify(text: string): Promise<string> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-unit-"));
  const path = join(dir.path, basename(unit));
  await writeFile(path, text.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
  const flags = ["--man=no", "--recursive-errors=no"];
  const { all } = await execa("systemd-analyze", ["verify", ...flags, path], {
    all: true,
    reject: false,
  });
  return all;
}

test("systemd finds nothing in the unit of the driver for Docker, but a key that it does not have", async () => {
  const text = await readFile(unit, "utf8");
  expect(await verify(text)).toBe("");
  expect(await verify(text.replace("KillMode=", "KilMode="))).toContain("KilMode");
});
