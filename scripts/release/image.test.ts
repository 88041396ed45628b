import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../..");

test("the quickstart installs the image that it pushes", () => {
  const page = readFileSync(join(root, "docs/user/quickstart.md"), "utf8");
  const pushed = /docker push (\S+)/.exec(page)?.[1];
  const script = /^sed -i '(.*)' (\S+)/m.exec(page);
  const [, expression = "", file = ""] = script ?? [];
  const text = execFileSync("sed", [expression, join(root, file)], { encoding: "utf8" });
  const [{ newName, newTag }] = parse(text).images;
  expect(`${newName}:${newTag}`).toBe(pushed);
});

test("the Dockerfile's default version is that of package.json", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const dockerfile = readFileSync(join(root, "Dockerfile"), "utf8");
  const defaults = [...dockerfile.matchAll(/^ARG VERSION=(.*)$/gm)].map(([, value]) => value);
  expect(defaults).toEqual([version, version]);
});
