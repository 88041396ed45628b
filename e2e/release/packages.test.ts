// SPDX-License-Identifier: Apache-2.0

import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";
import { nodeBinary } from "../support/paths.ts";

const packageFolders = ["e2e/npwg-conformance", "packages/npwg"];
const env = { PATH: `${dirname(nodeBinary())}:${process.env.PATH}` };

const manifestOf = async (folder: string): Promise<{ version: string; files: string[] }> =>
  JSON.parse(await readFile(join(root, folder, "package.json"), "utf8"));

test.each(packageFolders)("%s has the version of the release", async (folder) => {
  expect((await manifestOf(folder)).version).toBe((await manifestOf(".")).version);
});

test("programs can use what npm packs of @plexus/npwg", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-npwg-"));
  const cwd = dir.path;
  const folder = join(root, "packages/npwg");
  const installed = join(cwd, "node_modules/@plexus/npwg");
  await mkdir(installed, { recursive: true });
  await execa("npm", ["pack", "--pack-destination", cwd], { cwd: folder, env });
  const { version } = await manifestOf("packages/npwg");
  const archive = join(cwd, `plexus-npwg-${version}.tgz`);
  await execa("tar", ["-xzf", archive, "-C", installed, "--strip-components=1"]);
  await symlink(join(root, "node_modules/ipaddr.js"), join(cwd, "node_modules/ipaddr.js"));

  await cp(join(installed, "examples"), join(cwd, "examples"), { recursive: true });
  const outputs: string[] = [];
  for (const name of ["networks", "status"]) {
    const { stdout } = await execa(nodeBinary(), [`examples/${name}.mjs`], { cwd });
    outputs.push(...stdout.split("\n"));
  }
  expect(outputs).toEqual([
    "[ [ 'shop', 'storage', undefined ], [ 'infra', 'lab', 'lab0' ] ]",
    '[{"namespace":"shop","name":"storage"},{"namespace":"infra","name":"lab","interface":"lab0"},{"namespace":"shop","name":"backup","ips":["10.2.0.7/24"],"mac":"02:00:00:00:00:01"}]',
    "[",
    "  {",
    "    element: 1,",
    "    key: 'mac',",
    expect.stringMatching(/^ {4}reason: 'must be a 6-byte.* got "zz"'$/),
    "  }",
    "]",
    "pod-network eth0 [ '10.244.7.2' ]",
    "shop/storage net1 [ '172.20.0.2' ]",
    "storage [ 'bridge' ]",
  ]);

  const code = `import { type NetworkStatusElement, parseNetworkStatus } from "@plexus/npwg";
export const names: string[] = parseNetworkStatus("[]").map((each: NetworkStatusElement) => each.name);
// @ts-expect-error the standard has no such key
export const wrong = parseNetworkStatus("[]").map(({ interfaces }) => interfaces);
`;
  await writeFile(join(cwd, "program.mts"), code);
  const tsc = join(root, "node_modules/.bin/tsc");
  const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"];
  const { stdout, exitCode } = await execa(tsc, [...flags, "program.mts"], { cwd, reject: false });
  expect([exitCode, stdout]).toEqual([0, ""]);

  const bundle = await readFile(join(installed, "index.js"));
  expect(bundle.toString()).not.toMatch(/from "node:|require\("/);
  expect(gzipSync(bundle).length).toBeLessThan(20_000);
}, 120_000);
