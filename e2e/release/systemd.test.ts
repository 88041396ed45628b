import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";
import { parseFlags } from "#daemon/flags.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";

const deploy = join(root, "deploy");
const docker = join(deploy, "docker/plexus-docker.service");
const onDemand = ["plexusd.service", "plexusd.socket"].map((name) => join(deploy, "systemd", name));

/** The findings of systemd in units whose programs are installed. @param change of the first one */
async function verify(units: readonly string[], change = (text: string) => text): Promise<string> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-unit-"));
  const paths = units.map((unit) => join(dir.path, basename(unit)));
  for (const [index, path] of paths.entries()) {
    const text = await readFile(units[index] ?? "", "utf8");
    const changed = index === 0 ? change(text) : text;
    await writeFile(path, changed.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
  }
  const flags = ["--man=no", "--recursive-errors=no"];
  const { all } = await execa("systemd-analyze", ["verify", ...flags, ...paths], {
    all: true,
    reject: false,
  });
  return all;
}

test.each([
  ["the unit of the Docker driver", [docker]],
  ["the units that start plexusd on demand", onDemand],
])("systemd-analyze accepts %s, and finds a misspelled key", async (_, units) => {
  expect(await verify(units)).toBe("");
  expect(await verify(units, (text) => text.replace("KillMode=", "KilMode="))).toContain("KilMode");
});

test("the units that start plexusd on demand use the shim's socket, and flags that plexusd knows", async () => {
  const [service = "", socket = ""] = await Promise.all(
    onDemand.map((path) => readFile(path, "utf8")),
  );
  expect(/^ListenStream=(.*)$/m.exec(socket)?.[1]).toBe(defaultPaths.socket);
  const [, , ...argv] = /^ExecStart=(.*)$/m.exec(service)?.[1]?.split(" ") ?? [];
  const flags = { source: { kind: "files" }, local: true, http: "false" };
  expect(parseFlags(argv)).toMatchObject({ kind: "run", flags });
});
