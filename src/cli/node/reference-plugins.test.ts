import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect } from "vitest";
import { runCli } from "#cli/cli.ts";
import { reportPlugins } from "./reference-plugins.ts";

const list = ".plexus-reference-plugins";

/** A node's directories, and an image with the plugins bridge and vlan. */
async function makeNode(root: string) {
  const at = (name: string): string => join(root, name);
  for (const dir of ["image", "bin"]) await mkdir(at(dir));
  const write = (name: string, text: string) => writeFile(at(name), text, { mode: 0o755 });
  const lines: string[] = [];
  const output = {
    out: (line: string) => void lines.push(line.replace(`${root}/`, "")),
    err: (line: string) => void lines.push(line),
  };
  /** Runs a step, and returns what it printed. */
  const printed = async (step: Promise<unknown>): Promise<string[]> => {
    await step;
    return lines.splice(0);
  };
  await write("image/bridge", "bridge 1");
  await write("image/vlan", "vlan 1");
  return {
    at,
    write,
    read: (name: string) => readFile(at(name), "utf8"),
    install: (from = at("image")) =>
      printed(runCli(["install-plugins", "--from", from, "--bin-dir", at("bin")], output)),
    uninstall: () => printed(reportPlugins(at("bin"), output)),
  };
}

const test = base.extend("node", async ({ task: _task }, { onCleanup }) => {
  const root = await mkdtemp(join(tmpdir(), "plexus-plugins-"));
  onCleanup(() => rm(root, { recursive: true }));
  return makeNode(root);
});

const foreign = "kept, because Plexus did not install it";

test("install-plugins adds and upgrades what is missing; uninstall keeps it", async ({ node }) => {
  await node.write("bin/bridge", "of the distribution");
  expect(await node.install()).toEqual([`bin/bridge: ${foreign}`, "bin/vlan: installed"]);
  execFileSync("sha256sum", ["--check", "--strict", list], { cwd: node.at("bin") });
  expect((await node.install()).at(-1)).toBe("bin/vlan: unchanged");

  await node.write("image/vlan", "vlan 2");
  expect((await node.install()).at(-1)).toBe("bin/vlan: installed");
  expect(await node.read("bin/vlan")).toBe("vlan 2");
  const kept = `bin/${list}: kept, with the reference plugins that it lists, because others may use them: vlan`;
  expect(await node.uninstall()).toEqual([kept]);
  expect(await readdir(node.at("bin"))).toEqual([list, "bridge", "vlan"]);
  execFileSync("sha256sum", ["--check", "--strict", list], { cwd: node.at("bin") });
  expect(await node.read("bin/bridge")).toBe("of the distribution");
});

test("what is no file stays, also if its target has the same bytes or none", async ({ node }) => {
  for (const name of ["loopback", "ptp"]) await node.write(`image/${name}`, name);
  await node.write("vlan", "vlan 1");
  await symlink("../vlan", node.at("bin/vlan"));
  await symlink("../not/mounted", node.at("bin/loopback"));
  await mkdir(node.at("bin/ptp"));
  expect(await node.install()).toEqual([
    "bin/bridge: installed",
    ...["loopback", "ptp", "vlan"].map((name) => `bin/${name}: ${foreign}`),
  ]);
  expect(await node.uninstall()).toEqual([expect.stringMatching(/: bridge$/)]);
});

test("a plugin that another program has replaced is no longer that of Plexus, even if it had the same bytes before", async ({
  node,
}) => {
  await node.write("bin/bridge", "bridge 1");
  await node.install();
  await node.write("bin/vlan", "of the distribution");
  await node.write("image/vlan", "vlan 2");
  const both = [`bin/bridge: ${foreign}`, `bin/vlan: ${foreign}`];
  expect(await node.install()).toEqual(both);
  expect(await readdir(node.at("bin"))).toEqual(["bridge", "vlan"]);
  for (const name of ["bin/vlan", "image/bridge"]) await node.write(name, "vlan 1");
  expect(await node.install()).toEqual(both);
  expect(await node.uninstall()).toEqual([]);
});

test("installations at the same time complete each other", async ({ node }) => {
  const names = Array.from({ length: 20 }, (_, index) => `plugin-${index}`);
  for (const name of names) await node.write(`image/${name}`, name);
  await Promise.all([node.install(), node.install(), node.install()]);
  expect((await node.install()).filter((line) => line.endsWith(": unchanged"))).toHaveLength(22);
  expect(await readdir(node.at("bin"))).toHaveLength(23);
});

test("a plugin of an interrupted installation stays listed as on the disk", async ({ node }) => {
  await node.install();
  await node.write("image/bridge", "bridge 2");
  await rm(node.at("image/vlan"));
  await mkdir(node.at("image/vlan"));
  expect(await node.install()).toEqual([
    "bin/bridge: installed",
    expect.stringContaining("EISDIR"),
  ]);
  await rm(node.at("image/vlan"), { recursive: true });
  // Without vlan, as in an image of another release.
  expect(await node.install()).toEqual(["bin/bridge: unchanged"]);
  expect(await node.uninstall()).toEqual([expect.stringMatching(/: bridge, vlan$/)]);
});

test("an image without plugins is named as the problem", async ({ node }) => {
  const [problem] = await node.install(node.at("none"));
  expect(problem).toContain("none: use a release whose tag has -plugins");
});
