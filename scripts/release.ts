import { hash } from "node:crypto";
import {
  copyFile,
  cp,
  mkdir,
  mkdtempDisposable,
  readdir,
  readFile,
  rm,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { parse, stringify } from "yaml";
import { releaseTool } from "../e2e/release/tools.ts";
import { writeLicences } from "./components/licences.ts";
import { sbomOf } from "./components/sbom.ts";
import { shipped } from "./components/shipped.ts";
import { contentsOf, flavours, suffixOf } from "./image/flavours.ts";
import { reproducible } from "./image/root-files.ts";
import { newestChanges } from "./release/changes.ts";
import { deployImage, imageKustomization, plainReference } from "./release/image.ts";
import { packKrewPlugin } from "./release/krew.ts";
import { plainManifest } from "./release/manifest.ts";
import { linkToRelease, repository } from "./release/repository.ts";

/**
 * Writes the files of a release: manifests, overlays and chart for its images, the CRD, alerts and dashboard, the
 * kubectl plugin, also for krew, an SBOM of each image, and their checksums. It has the packages that `make build` and
 * `make image PLUGINS=1` put into dist/.
 * --digest SUFFIX=DIGEST: that of the image whose tag has this suffix.
 */
const { values } = parseArgs({
  options: {
    version: { type: "string", default: "0.0.0" },
    image: { type: "string", default: deployImage() },
    digest: { type: "string", multiple: true, default: [] },
    repository: { type: "string", default: repository },
    out: { type: "string", default: "dist/release" },
  },
});
const { version, out } = values;
const image = plainReference(values.image);
const temporary = join(tmpdir(), "plexus-release-");

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const kustomization = imageKustomization(image);
for (const [name, folder] of [
  ["install", "base"],
  ["uninstall", "uninstall"],
] as const) {
  const head = `# Plexus ${version}: deploy/${folder} with the image of this release.\n`;
  await writeFile(join(out, `${name}.yaml`), head + plainManifest(folder, image));
}
for (const path of [
  "crds/network-attachment-definitions.yaml",
  "deploy/kubectl-plexus",
  "deploy/kubectl_complete-plexus",
]) {
  await copyFile(path, join(out, path.slice(path.indexOf("/") + 1)));
}
await setProgramVersion(join(out, "kubectl-plexus"));
await writeFile(join(out, "krew.yaml"), await packKrewPlugin(out, values));
await packManifests();
await packChart();
for (const flavour of flavours) {
  const { components } = await shipped(await contentsOf(flavour));
  const name = `sbom${suffixOf(flavour)}.cdx.json`;
  await writeFile(join(out, name), sbomOf({ version, components }));
}
await writeFile(join(out, "SHA256SUMS"), await checksums());
process.stdout.write(`${out}: Plexus ${version} with ${image}\n`);

async function setProgramVersion(path: string): Promise<void> {
  const program = await readFile(path, "utf8");
  await writeFile(path, program.replace(/^version=.*$/m, `version=${version}`));
}

/** What `kubectl apply -k` needs of this repository, with the release's image, and links to its repository. */
async function packManifests(): Promise<void> {
  await using work = await mkdtempDisposable(temporary);
  const folders = [
    "base",
    "components",
    "image",
    "migration",
    "monitoring",
    "overlays",
    "uninstall",
  ];
  for (const folder of ["crds", ...folders.map((name) => `deploy/${name}`)])
    await cp(folder, join(work.path, folder), { recursive: true });
  await writeFile(join(work.path, "deploy/image/kustomization.yaml"), kustomization);
  await setLinks(work.path, ["deploy/monitoring/rules.yaml"]);
  await writeLicences(work.path);
  await pack(join(out, "manifests.tar.gz"), work.path);
}

/** The chart with copies in place of its links, the release's image, and links to its repository. */
async function packChart(): Promise<void> {
  await using work = await mkdtempDisposable(temporary);
  const chart = join(work.path, "plexus");
  await cp("deploy/chart", chart, { recursive: true, dereference: true });
  await writeFile(join(chart, "files/image/kustomization.yaml"), kustomization);
  await setLinks(chart, ["Chart.yaml", "README.md", "files/monitoring/rules.yaml"]);
  const metadata = parse(await readFile(join(chart, "Chart.yaml"), "utf8"));
  metadata.annotations["artifacthub.io/images"] = stringify([{ name: "plexus", image }]);
  const changes = newestChanges(await readFile("CHANGELOG.md", "utf8"));
  metadata.annotations["artifacthub.io/changes"] = stringify(changes);
  metadata.annotations["artifacthub.io/prerelease"] = String(version.includes("-"));
  await writeFile(join(chart, "Chart.yaml"), stringify(metadata));
  await writeFile(join(chart, "files/digests.yaml"), stringify(digests()));
  await writeLicences(chart);
  const versions = ["--version", version, "--app-version", version];
  const packed = join(work.path, "packed");
  await execa(await releaseTool("helm"), ["package", chart, "--destination", packed, ...versions]);
  // Helm's archive has the time at which it was made.
  const name = `plexus-${version}.tgz`;
  const unpacked = join(work.path, "unpacked");
  await mkdir(unpacked);
  await execa("tar", ["-C", unpacked, "-xzf", join(packed, name)]);
  await pack(join(out, name), unpacked);
}

/** Packs the content of a directory. The same files give the same archive. */
async function pack(archive: string, directory: string): Promise<void> {
  const names = (await readdir(directory)).toSorted();
  await execa("tar", [
    ...reproducible,
    "--mode=u=rwX,go=rX",
    "-C",
    directory,
    "-czf",
    archive,
    ...names,
  ]);
}

/** The digests of the images by the suffix of their tag, as far as they are given. */
function digests(): Record<string, string> {
  const pairs = values.digest.map((pair) => pair.split("="));
  return Object.fromEntries(pairs.map(([suffix = "", digest = ""]) => [suffix, digest]));
}

async function setLinks(root: string, files: readonly string[]): Promise<void> {
  for (const path of files.map((name) => join(root, name)))
    await writeFile(path, linkToRelease(await readFile(path, "utf8"), values));
}

/** Checksums in the format of `sha256sum --check`. */
async function checksums(): Promise<string> {
  const lines = (await readdir(out)).toSorted().map(async (name) => {
    return `${hash("sha256", await readFile(join(out, name)))}  ${name}\n`;
  });
  return (await Promise.all(lines)).join("");
}
