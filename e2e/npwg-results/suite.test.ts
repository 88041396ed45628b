import { mkdtempDisposable, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { codeBlocks } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { runSuite, type SuiteRun } from "./run-suite.ts";

const suiteDir = join(repositoryRoot, "e2e/npwg-conformance");

/** Runs only the default network's plugin, whatever the pod selects, and publishes nothing. */
const wrong = {
  name: "default network only",
  version: "1",
  plugin: "plugin.sh",
  configuration: { cniVersion: "1.0.0", name: "wrong", type: "wrong" },
  environment: { CONF: "{{dir}}/default.json" },
  files: {
    "{{dir}}/default.json": { cniVersion: "1.0.0", name: "default", type: "npwg-default" },
  },
};

const plugin = '#!/bin/sh\nexec "$CNI_PATH/npwg-default" <"$CONF"\n';

async function runOnWrong(
  dir: string,
  ids: readonly string[],
  program?: string[],
): Promise<SuiteRun> {
  await writeFile(join(dir, "plugin.sh"), plugin, { mode: 0o755 });
  const flags = ids.flatMap((id) => ["--only", id]);
  return await runSuite({ file: wrong, dir, flags, ...(program && { program }) });
}

test("npwg-conformance fails the requirements that a wrong implementation does not meet, and only those", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "npwg-suite-"));
  const failing = ["N-3.4.1a", "N-3.4.1d", "N-4a", "N-4.1.2.1.3.2b", "N-7.2a", "X-13"];
  const others = ["N-3.3a", "N-4.1.2.1.9e", "N-5a", "N-5b", "N-6a", "N-7.3", "N-7.4", "X-3"];
  const { exitCode, tap, markdown, findings } = await runOnWrong(dir.path, [...failing, ...others]);
  const verdicts = Object.fromEntries(findings.map(({ id, verdict }) => [id, verdict]));
  expect(verdicts).toEqual({
    ...Object.fromEntries(failing.map((id) => [id, "failed"])),
    ...{ "N-3.3a": "not testable", "N-7.4": "not testable", "N-5b": "not testable" },
    ...{ "N-4.1.2.1.9e": "absent", "N-5a": "absent" },
    ...{ "N-6a": "passed", "N-7.3": "passed", "X-3": "passed" },
  });
  expect(exitCode).toBe(1);
  const reason =
    'executions of ADD: expected ["npwg-default/eth0","npwg-a/net1"], got ["npwg-default/eth0"]';
  expect(tap).toMatch(/^TAP version 14\n/);
  expect(tap).toMatch(/\n1\.\.9\n$/);
  expect(tap).toContain(`reason: ${JSON.stringify(reason)}`);
  expect(tap).toMatch(/^# N-3\.3a not testable: /m);
  expect(markdown).toContain(`| N-6a | MUST | standard |`);
});

test("npwg-conformance is packed so that it runs from another directory with one command", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "npwg-pack-"));
  await execa("npm", ["pack", "--pack-destination", dir.path], { cwd: suiteDir });
  const [archive = ""] = await readdir(dir.path);
  expect(archive).toBe("npwg-conformance-0.1.0.tgz");
  const install = ["install", "--offline", "--no-audit", "--no-fund", join(dir.path, archive)];
  await execa("npm", [...install, "--prefix", dir.path], { cwd: dir.path });
  const packed = join(dir.path, "node_modules");
  expect((await readdir(join(packed, "npwg-conformance"))).toSorted()).toEqual([
    "LICENSE",
    "NOTICE",
    "README.md",
    "npwg-conformance.js",
    "package.json",
  ]);
  const program = [join(packed, ".bin/npwg-conformance")];
  const run = await runOnWrong(dir.path, ["N-6a"], program);
  expect(run).toMatchObject({ exitCode: 0, findings: [{ id: "N-6a", verdict: "passed" }] });
});

test("npwg-conformance names each wrong key of an implementation file; the README's example is valid", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "npwg-file-"));
  const { name: _, ...nameless } = wrong;
  const daemon = { command: [], ready: { socket: "x" } };
  const invalid = await runSuite({ file: { ...nameless, plugins: 1, daemon }, dir: dir.path });
  expect(invalid.exitCode).toBe(2);
  for (const problem of [
    "plugins: unknown key",
    "name: expected a non-empty string, got nothing",
    "daemon.command: expected a list of strings with at least one, got []",
    'daemon.ready: expected "file" or "output", got socket',
  ])
    expect(invalid.stderr).toContain(problem);
  const unknown = await runSuite({
    file: { ...wrong, environment: { A: "{{bin}}" } },
    dir: dir.path,
  });
  expect(unknown.stderr).toContain("placeholder {{bin}}: no such value here; there are ");
  const readme = await readFile(join(suiteDir, "README.md"), "utf8");
  const example = codeBlocks(readme).find(({ info }) => info === "json")?.text ?? "";
  const flags = ["--only", "N-3.3a"];
  const valid = await runSuite({ file: JSON.parse(example) as object, dir: dir.path, flags });
  expect(valid).toMatchObject({ exitCode: 0, findings: [{ verdict: "not testable" }] });
});
