import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { Component } from "./component.ts";

/** The Go modules that the programs of a directory contain, and Go itself. */
export async function goModules(directory: string): Promise<Component[]> {
  const { stdout } = await execa("go", ["version", "-m", directory]);
  const found = stdout.matchAll(/^\t(?:mod|dep)\t(\S+)\t(v\S+)/gm);
  const modules = [...new Set(Array.from(found, ([, path, version]) => `${path}@${version}`))];
  const [, release = ""] = /: go(\S+)/.exec(stdout) ?? [];
  return [await goItself(release), ...(await Promise.all(modules.toSorted().map(goModule)))];
}

async function goModule(module: string): Promise<Component> {
  const { stdout } = await execa("go", ["mod", "download", "-json", module], { cwd: "/" });
  const text = await licencesIn(JSON.parse(stdout).Dir);
  const [name = "", version = ""] = module.split("@");
  return { type: "library", name, version, purl: `pkg:golang/${name}@${version}`, text };
}

/** The standard library, which every program has. Its text is that of the release that built them. */
async function goItself(version: string): Promise<Component> {
  const env = { GOTOOLCHAIN: `go${version}` };
  const { stdout: goRoot } = await execa("go", ["env", "GOROOT"], { cwd: "/", env });
  const text = await licencesIn(goRoot);
  return { type: "library", name: "stdlib", version, purl: `pkg:golang/stdlib@${version}`, text };
}

async function licencesIn(directory: string): Promise<string> {
  const files = (await readdir(directory)).filter((file) =>
    /^(licen[cs]e|copying|notice|patents)/i.test(file),
  );
  if (files.length === 0) throw new Error(`${directory} has no text of a licence`);
  const texts = files.map((file) => readFile(join(directory, file), "utf8"));
  return (await Promise.all(texts)).join("\n");
}
