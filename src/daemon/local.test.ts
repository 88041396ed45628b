import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { type LocalPaths, LocalSources } from "./local.ts";

const flags = { source: { kind: "files" as const }, socket: "s", stateDir: "d", local: true };
let paths: LocalPaths;

beforeEach(async () => {
  const dir = await mkdtemp(join(tmpdir(), "plexus-local-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  paths = { manifests: join(dir, "manifests"), config: join(dir, "config.yaml") };
});

test("LocalSources without directory and configuration uses configuration files, until one appears", async () => {
  const sources = new LocalSources(paths);
  expect(sources.applyTo(flags)).toEqual(flags);
  expect(sources.problem()).toBeUndefined();
  await writeFile(paths.config, "");
  expect(sources.problem()).toBe(`${paths.config} appeared or disappeared`);
  await mkdir(paths.manifests);
  expect(sources.problem()).toBe(`${paths.manifests} appeared or disappeared`);
});

test("LocalSources uses what exists, while only root can change the manifests", async () => {
  await mkdir(paths.manifests);
  await writeFile(paths.config, "");
  const sources = new LocalSources(paths);
  const source = { kind: "manifests", dir: paths.manifests };
  expect(sources.applyTo(flags)).toEqual({ ...flags, source, config: paths.config });
  const manifest = join(paths.manifests, "web.yaml");
  await writeFile(manifest, "");
  expect(sources.problem()).toBeUndefined();
  await chmod(manifest, 0o666);
  expect(sources.problem()).toContain("web.yaml must belong to root");
  await chmod(manifest, 0o644);
  await rm(paths.config);
  expect(sources.problem()).toContain("config.yaml appeared or disappeared");
});
