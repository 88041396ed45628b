// SPDX-License-Identifier: Apache-2.0

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadManifests, root } from "#daemon/config/testing/manifests.ts";
import { kubernetesDirectory } from "../cluster/kubernetes/tools.ts";
import { nodeBinary } from "../support/paths.ts";
import { byName, kustomize } from "./kustomize.ts";
import { releaseTool } from "./tools.ts";

const version = "1.2.3-rc.1";
const digest = `sha256:${"0".repeat(64)}`;
const pinned = `registry.example.org:5000/plexus@${digest}`;
let out: string;

/** Makes a release as `make release` does. */
async function makeRelease(image: string): Promise<void> {
  const flags = ["--version", version, "--image", image, "--out", out];
  await execa(nodeBinary(), ["scripts/release.ts", ...flags], { cwd: root });
}

async function read(name: string): Promise<string> {
  return readFile(join(out, name), "utf8");
}

beforeAll(async () => {
  await Promise.all([releaseTool("helm"), kubernetesDirectory()]);
  out = await mkdtemp(join(tmpdir(), "plexus-release-"));
  await makeRelease(`registry.example.org:5000/plexus:v${version}@${digest}`);
});

afterAll(async () => await rm(out, { recursive: true }));

test("sha256sum verifies every file of a release", async () => {
  const { stdout } = await execa("sha256sum", ["--check", "SHA256SUMS"], { cwd: out });
  expect(stdout.split("\n").toSorted()).toEqual([
    "install.yaml: OK",
    "kubectl-plexus: OK",
    "network-attachment-definitions.yaml: OK",
    `plexus-${version}.tgz: OK`,
    "sbom.cdx.json: OK",
    "uninstall.yaml: OK",
  ]);
});

test.each([
  ["install.yaml", "base"],
  ["uninstall.yaml", "uninstall"],
])(
  "%s is what kustomize renders from deploy/%s, with the image of the release",
  async (name, folder) => {
    const made = JSON.stringify(await kustomize(folder));
    const expected = JSON.parse(made.replaceAll("localhost/plexus:dev", pinned));
    expect(byName(loadManifests(await read(name)))).toEqual(byName(expected));
  },
);

test("the chart has the version and the image of the release, and no symbolic links", async () => {
  const archive = join(out, `plexus-${version}.tgz`);
  const helm = await releaseTool("helm");
  const { stdout: about } = await execa(helm, ["show", "chart", archive]);
  expect(about).toContain(`version: ${version}\n`);
  expect(about).toContain(`appVersion: ${version}\n`);
  const flags = ["--namespace=kube-system", "--kube-version=1.30.0", "--set=agent.enabled=true"];
  const { stdout, stderr } = await execa(helm, ["template", "plexus", archive, ...flags]);
  expect(stderr).not.toContain("symbolic link");
  const images = [...stdout.matchAll(/image: (.*)/g)].flatMap(([, image]) => image);
  expect(new Set(images)).toEqual(new Set([pinned]));
});

test("the SBOM lists the bundled packages, Node and musl, and is reproducible", async () => {
  const text = await read("sbom.cdx.json");
  const { components, metadata } = JSON.parse(text) as {
    components: { name: string; version: string }[];
    metadata: { component: object };
  };
  expect(metadata.component).toMatchObject({ name: "plexus", version });
  const { dependencies, devDependencies } = JSON.parse(
    await readFile(join(root, "package.json"), "utf8"),
  ) as Record<"dependencies" | "devDependencies", Record<string, string>>;
  const versions = Object.fromEntries(components.map(({ name, version: v }) => [name, v]));
  expect(versions).toMatchObject({ ...dependencies, node: devDependencies.node });
  expect(versions.musl).toMatch(/^1\./);
  expect(Object.keys(versions)).not.toContain("vitest");
  await makeRelease(pinned);
  expect(await read("sbom.cdx.json")).toBe(text);
});

test.each(["plexus", "plexus:", "plexus@sha256:1", "registry.example.org:5000/plexus"])(
  "an image without a tag or digest is rejected: %s",
  async (image) => {
    await expect(makeRelease(image)).rejects.toThrow("a tag or a digest");
  },
);
