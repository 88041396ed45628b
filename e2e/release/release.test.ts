import { mkdtemp, mkdtempDisposable, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { loadManifests, root } from "#daemon/config/testing/manifests.ts";
import { newestChanges } from "../../scripts/release/changes.ts";
import { repository as checkoutRepository } from "../../scripts/release/repository.ts";
import { kubernetesDirectory } from "../cluster/kubernetes/build/kubernetes.ts";
import { nodeBinary } from "../support/paths.ts";
import { withHooks } from "./chart.ts";
import { byName, kustomize } from "./kustomize.ts";
import { releaseTool } from "./tools.ts";

const version = "1.2.3-rc.1";
const digest = `sha256:${"0".repeat(64)}`;
const standaloneDigest = `sha256:${"1".repeat(64)}`;
const pinned = `registry.example.org:5000/plexus@${digest}`;
const repository = "https://example.org/plexus";
let out: string;

/** Makes a release as `make release` does. */
async function makeRelease(image: string): Promise<void> {
  const named = ["--image", image, `--digest=-standalone=${standaloneDigest}`];
  const flags = ["--version", version, ...named, "--repository", repository, "--out", out];
  await execa(nodeBinary(), ["scripts/release.ts", ...flags], { cwd: root });
}

async function read(name: string): Promise<string> {
  return readFile(join(out, name), "utf8");
}

beforeAll(async () => {
  await Promise.all([releaseTool("helm"), releaseTool("krew"), kubernetesDirectory()]);
  out = await mkdtemp(join(tmpdir(), "plexus-release-"));
  await makeRelease(`registry.example.org:5000/plexus:v${version}@${digest}`);
});

afterAll(async () => await rm(out, { recursive: true }));

test("sha256sum verifies every file of a release", async () => {
  const { stdout } = await execa("sha256sum", ["--check", "SHA256SUMS"], { cwd: out });
  expect(stdout.split("\n").toSorted()).toEqual([
    "install.yaml: OK",
    "krew.yaml: OK",
    "kubectl-plexus.tar.gz: OK",
    "kubectl-plexus: OK",
    "kubectl_complete-plexus: OK",
    "manifests.tar.gz: OK",
    "network-attachment-definitions.yaml: OK",
    `plexus-${version}.tgz: OK`,
    "sbom-plugins.cdx.json: OK",
    "sbom-standalone-plugins.cdx.json: OK",
    "sbom-standalone.cdx.json: OK",
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

test("the overlays of a release are those of deploy/ with its image, and its alerts link to its pages", async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-manifests-"));
  await execa("tar", ["-xzf", join(out, "manifests.tar.gz"), "-C", work.path]);
  expect(await readdir(join(work.path, "crds"))).toHaveLength(1);
  const kubectl = join(await kubernetesDirectory(), "kubectl");
  for (const overlay of await readdir(join(root, "deploy/overlays"))) {
    const folder = `overlays/${overlay}`;
    const { stdout } = await execa(kubectl, ["kustomize", join(work.path, "deploy", folder)]);
    const made = JSON.stringify(await kustomize(folder));
    const expected = JSON.parse(made.replaceAll("localhost/plexus:dev", pinned));
    expect(byName(loadManifests(stdout)), overlay).toEqual(byName(expected));
  }
  const monitoring = join(work.path, "deploy/monitoring");
  expect(await readdir(monitoring)).toContain("dashboard.json");
  const rules = await readFile(join(monitoring, "rules.yaml"), "utf8");
  expect(rules).toContain(`${repository}/blob/v${version}/docs/operations/alerts.md#plexusdown`);
});

test("the chart has the version, the image and the links of the release, and no symbolic links", async () => {
  const archive = join(out, `plexus-${version}.tgz`);
  const helm = await releaseTool("helm");
  const { stdout: about } = await execa(helm, ["show", "chart", archive]);
  expect(about).toContain(`version: ${version}\n`);
  const { appVersion, annotations, icon } = parse(about);
  expect(appVersion).toBe(version);
  expect(parse(annotations["artifacthub.io/images"])).toEqual([{ name: "plexus", image: pinned }]);
  const changelog = await readFile(join(root, "CHANGELOG.md"), "utf8");
  expect(parse(annotations["artifacthub.io/changes"])).toEqual(newestChanges(changelog));
  expect(icon).toBe(`${repository}/raw/v${version}/deploy/chart/icon.svg`);
  expect(annotations["artifacthub.io/prerelease"]).toBe("true");
  const enabled = ["agent.enabled=true", "metrics.enabled=true", "metrics.monitoring=true"];
  const flags = ["--namespace=kube-system", "--kube-version=1.30.0", "--skip-tests", withHooks];
  const values = enabled.map((value) => `--set=${value}`);
  const template = ["template", "plexus", archive, ...flags, ...values];
  const { stdout, stderr } = await execa(helm, template);
  expect(stderr).toBe("");
  const images = [...stdout.matchAll(/image: (.*)/g)].flatMap(([, image]) => image);
  expect(new Set(images)).toEqual(new Set([pinned]));
  expect(stdout).toContain(`${repository}/blob/v${version}/docs/operations/alerts.md#plexusdown`);
  const thin = await execa(helm, [...template, "--set=flavour=thin"]);
  expect(thin.stdout).toContain(`image: registry.example.org:5000/plexus@${standaloneDigest}\n`);
  const unknown = execa(helm, [...template, "--set=referencePlugins.enabled=true"]);
  await expect(unknown).rejects.toThrow('no image with the suffix "-plugins"');
  const { stdout: all } = await execa(helm, ["show", "all", archive]);
  expect(all + stdout).not.toContain(new URL(checkoutRepository).pathname);
});

test("krew accepts its manifest, and installs kubectl plexus from the archive of the release", async () => {
  await using krewRoot = await mkdtempDisposable(join(tmpdir(), "plexus-krew-"));
  const manifest = parse(await read("krew.yaml"));
  const [{ uri }] = manifest.spec.platforms;
  expect(uri).toBe(`${repository}/releases/download/v${version}/kubectl-plexus.tar.gz`);
  const files = ["--manifest", join(out, "krew.yaml"), "--archive", join(out, basename(uri))];
  const env = { KREW_ROOT: krewRoot.path };
  await execa(await releaseTool("krew"), ["install", ...files], { env });
  const { stdout } = await execa(join(krewRoot.path, "bin/kubectl-plexus"), ["help"]);
  expect(stdout).toContain("usage: kubectl plexus explain");
  const program = await readFile(join(krewRoot.path, "bin/kubectl-plexus"), "utf8");
  expect(program).toContain(`\nversion=${version}\n`);
  const installed = await readdir(join(krewRoot.path, "store/plexus", `v${version}`));
  expect(installed).toEqual(["LICENSE", "NOTICE", "kubectl-plexus"]);
});

test.each(["plexus", "plexus:", "plexus@sha256:1", "registry.example.org:5000/plexus"])(
  "an image without a tag or digest is rejected: %s",
  async (image) => {
    await expect(makeRelease(image)).rejects.toThrow("a tag or a digest");
  },
);
