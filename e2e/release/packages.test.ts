import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { format } from "node:util";
import { createContext, runInContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";
import { nodeBinary } from "../support/paths.ts";

const packageFolders = ["e2e/npwg-conformance", "packages/npwg"];
const systemNode = "/usr/bin/node";
const env = { PATH: `${dirname(nodeBinary())}:${process.env.PATH}` };

const manifestOf = async (folder: string): Promise<{ version: string; files: string[] }> =>
  JSON.parse(await readFile(join(root, folder, "package.json"), "utf8"));

test.each(packageFolders)("%s has the version of the release", async (folder) => {
  expect((await manifestOf(folder)).version).toBe((await manifestOf(".")).version);
});

/** Removes what Node 20 and browsers of its age lack: the packed file does without it. */
const asNode20 = `delete JSON.rawJSON; delete JSON.isRawJSON; delete globalThis.Iterator;
  delete Object.groupBy; delete Map.groupBy; delete Promise.withResolvers; delete Array.fromAsync;`;

/** What a program prints that has ECMAScript, TextEncoder and a console, as one text. */
async function runAsBrowser(cwd: string, program: string): Promise<string> {
  const bundle = { bundle: true, format: "iife", write: false, platform: "browser" } as const;
  const { outputFiles } = await build({ ...bundle, stdin: { contents: program, resolveDir: cwd } });
  const lines: string[] = [];
  const console = { log: (...args: unknown[]) => lines.push(format(...args)) };
  const context = createContext({ TextEncoder, console });
  runInContext(asNode20 + outputFiles[0]?.text, context);
  return lines.join("\n");
}

/** The oldest Node that the package supports, where the machine has it. */
async function isNode20(path: string): Promise<boolean> {
  const { stdout } = await execa(path, ["--version"], { reject: false });
  return stdout?.startsWith("v20.") ?? false;
}

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
  const examples = ["networks", "status"].map((name) => `examples/${name}.mjs`);
  const runs: Promise<string>[] = [];
  for (const node of [nodeBinary(), ...((await isNode20(systemNode)) ? [systemNode] : [])]) {
    const outputs = examples.map((file) => execa(node, [file], { cwd }));
    runs.push(Promise.all(outputs).then((all) => all.map(({ stdout }) => stdout).join("\n")));
  }
  runs.push(runAsBrowser(cwd, examples.map((file) => `import "./${file}";`).join("\n")));
  for (const output of await Promise.all(runs))
    expect(output.split("\n")).toEqual([
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

  const require = `const { parseNetworks } = require("@plexus/npwg");
console.log(parseNetworks("a", { namespace: "b" }), require("@plexus/npwg/package.json").name);`;
  const { stdout: required } = await execa(nodeBinary(), ["-e", require], { cwd });
  expect(required).toBe("[ { namespace: 'b', name: 'a' } ] @plexus/npwg");

  const long = `import { parseNetworks } from "@plexus/npwg";
  const annotation = '[{"name": "a", "cni-args": {"id": 9007199254740993}}]';
  try { parseNetworks(annotation, { namespace: "b" }); } catch (e) { console.log(e.message); }`;
  expect(await runAsBrowser(cwd, long)).toContain("number 9007199254740993 of key");

  const code = `import { type AddResult, type NetworkStatusElement, parseNetworkStatus } from "@plexus/npwg";
export const names: string[] = parseNetworkStatus("[]").map((each: NetworkStatusElement) => each.name);
export const routeOf = ({ routes, interfaces }: AddResult) => [routes[0]?.mtu, interfaces[0]?.pciID];
// @ts-expect-error the standard has no such key
export const wrong = parseNetworkStatus("[]").map(({ interfaces }) => interfaces);
`;
  await writeFile(join(cwd, "program.mts"), code);
  await writeFile(join(cwd, "program.cts"), code);
  const tsc = join(root, "node_modules/.bin/tsc");
  const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"];
  const { stdout, exitCode } = await execa(tsc, [...flags, "program.mts", "program.cts"], {
    cwd,
    reject: false,
  });
  expect([exitCode, stdout]).toEqual([0, ""]);

  expect(await readFile(join(installed, "README.md"), "utf8")).not.toContain("](../");
  const bundle = await readFile(join(installed, "index.js"));
  expect(bundle.toString()).not.toMatch(/from "node:|require\("/);
  expect(gzipSync(bundle).length).toBeLessThan(20_000);
}, 120_000);
