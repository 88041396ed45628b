import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const note =
  /^note: no musl-gcc: .* about (\d+) KB instead of (\d+) KB, .*; install musl-tools \(Debian\)/gm;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "plexus-build-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function build(...args: string[]): { notes: RegExpExecArray[]; kilobytes: number } {
  const out = join(dir, "plexus");
  const stdout = execFileSync("make", ["-C", join(root, "shim"), `OUT=${out}`, ...args]);
  expect(execFileSync(out, ["--version"]).toString()).toMatch(/^plexus /);
  return { notes: [...stdout.toString().matchAll(note)], kilobytes: statSync(out).size / 1000 };
}

describe("the shim's build", () => {
  test("without musl-gcc prints one note with both sizes", () => {
    const withMusl = build();
    const { notes, kilobytes } = build("-B", "CC=cc");
    expect(notes).toHaveLength(1);
    const [, stated, usual] = (notes[0] ?? []).map(Number);
    expect(kilobytes / Number(stated)).toBeCloseTo(1, 1);
    if (withMusl.notes.length === 0) expect(withMusl.kilobytes / Number(usual)).toBeCloseTo(1, 1);
  });
});

describe("scripts/system-deps.sh build without musl-gcc", () => {
  /** A PATH with everything but musl-gcc and apt-get; apt-get is then the script given, if any. */
  function path(aptGet?: string): string {
    const bin = join(dir, "bin");
    mkdirSync(bin);
    const tools = "bash sh cc gcc as ld ar flock ip iptables nft ping unshare";
    for (const tool of tools.split(" ")) {
      const found = (process.env.PATH ?? "")
        .split(delimiter)
        .map((folder) => join(folder, tool))
        .find((file) => existsSync(file));
      if (found) symlinkSync(found, join(bin, tool));
    }
    writeFileSync(join(bin, "id"), "#!/bin/sh\necho 0\n", { mode: 0o755 });
    if (aptGet) writeFileSync(join(bin, "apt-get"), `#!/bin/sh\n${aptGet}\n`, { mode: 0o755 });
    return bin;
  }

  const run = (PATH: string) =>
    spawnSync("bash", [join(root, "scripts/system-deps.sh"), "build"], {
      env: { ...process.env, PATH },
      encoding: "utf8",
    });

  test("installs musl-tools on Debian", () => {
    const calls = join(dir, "calls");
    const { status, stdout } = run(path(`echo "$@" >>${calls}`));
    expect({ status, stdout }).toEqual({ status: 0, stdout: "installing musl-tools\n" });
    expect(readFileSync(calls, "utf8")).toMatch(/^install .* musl-tools$/m);
  });

  test("succeeds with the static glibc if apt-get cannot install musl-tools", () => {
    expect(run(path("exit 100")).status).toBe(0);
  });

  test("succeeds with the static glibc if there is no apt-get", () => {
    expect(run(path())).toMatchObject({ status: 0, stdout: "" });
  });
});
