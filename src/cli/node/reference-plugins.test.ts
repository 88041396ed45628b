import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect } from "vitest";
import { runCli } from "#cli/cli.ts";
import { removePlugins } from "./reference-plugins.ts";

const list = ".plexus-reference-plugins";

/** A node's directories, and an image with the plugins bridge and vlan. */
async function makeNode(root: string) {
  const at = (name: string): string => join(root, name);
  for (const dir of ["image", "bin", "net.d"]) await mkdir(at(dir));
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
  const paths = { binDir: at("bin"), cniConfDir: at("net.d"), primaryDir: at("net.d") };
  return {
    at,
    write,
    read: (name: string) => readFile(at(name), "utf8"),
    install: (from = at("image")) =>
      printed(runCli(["install-plugins", "--from", from, "--bin-dir", at("bin")], output)),
    uninstall: () => printed(removePlugins(paths, output)),
  };
}

const test = base.extend("node", async ({ task: _task }, { onCleanup }) => {
  const root = await mkdtemp(join(tmpdir(), "plexus-plugins-"));
  onCleanup(() => rm(root, { recursive: true }));
  return makeNode(root);
});

test("install-plugins adds what is missing and upgrades what it added; uninstall removes that", async ({
  node,
}) => {
  await node.write("bin/bridge", "of the distribution");
  await symlink("../not/mounted", node.at("bin/loopback"));
  await node.write("image/loopback", "loopback 1");
  expect(await node.install()).toEqual([
    "bin/bridge: kept, because Plexus did not install it",
    "bin/loopback: kept, because another program has just installed it",
    "bin/vlan: installed",
  ]);
  execFileSync("sha256sum", ["--check", "--strict", list], { cwd: node.at("bin") });
  expect((await node.install()).at(-1)).toBe("bin/vlan: unchanged");

  await node.write("image/vlan", "vlan 2");
  expect((await node.install()).at(-1)).toBe("bin/vlan: installed");
  expect(await node.read("bin/vlan")).toBe("vlan 2");
  expect((await node.read(`bin/${list}`)).trimEnd().split("\n")).toHaveLength(1);
  expect(await node.uninstall()).toEqual(["bin/vlan: removed"]);
  expect((await readdir(node.at("bin"))).toSorted()).toEqual(["bridge", "loopback"]);
  expect(await node.read("bin/bridge")).toBe("of the distribution");
});

test("a plugin that another program has replaced is no longer that of Plexus, even if it had the same bytes before", async ({
  node,
}) => {
  await node.write("bin/bridge", "bridge 1");
  await node.install();
  await node.write("bin/vlan", "of the distribution");
  await node.write("image/vlan", "vlan 2");
  expect(await node.install()).toEqual([
    "bin/bridge: kept, because Plexus did not install it",
    "bin/vlan: kept, because Plexus did not install it",
  ]);
  expect(await node.uninstall()).toEqual([]);
  expect((await readdir(node.at("bin"))).toSorted()).toEqual(["bridge", "vlan"]);
});

test("uninstall keeps a plugin that another configuration names, and what an interrupted installation left is found", async ({
  node,
}) => {
  await node.write("bin/.vlan.0123456789ab.tmp", "half");
  await node.install();
  const conf = { cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] };
  await node.write("net.d/10-pods.conflist", JSON.stringify(conf));
  expect(await node.uninstall()).toEqual([
    expect.stringMatching(/^bin\/bridge: kept, because a configuration in .*net\.d .*names it$/),
    "bin/vlan: removed",
  ]);
  await rm(node.at("net.d/10-pods.conflist"));
  expect(await node.uninstall()).toEqual(["bin/bridge: removed"]);
  expect(await readdir(node.at("bin"))).toEqual([]);
});

test("a plugin that an installation could not finish stays listed with what is on the disk", async ({
  node,
}) => {
  await node.install();
  await node.write("image/bridge", "bridge 2");
  await rm(node.at("image/vlan"));
  await mkdir(node.at("image/vlan"));
  expect(await node.install()).toEqual([expect.stringContaining("EISDIR")]);
  await rm(node.at("image/vlan"), { recursive: true });
  // Without vlan, as in an image of another release.
  expect(await node.install()).toEqual(["bin/bridge: installed"]);
  expect(await node.uninstall()).toEqual(["bin/bridge: removed", "bin/vlan: removed"]);
});

test("an image without plugins is named as the problem", async ({ node }) => {
  const [problem] = await node.install(node.at("none"));
  expect(problem).toContain("none: use that of a release whose tag ends in -plugins");
});
