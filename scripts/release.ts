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
import { reproducible } from "./image/root-files.ts";
import { deployImage, imageKustomization, plainReference } from "./release/image.ts";
import { packKrewPlugin } from "./release/krew.ts";
import { plainManifest } from "./release/manifest.ts";
import { linkToRelease, repository } from "./release/repository.ts";
import { makeSbom } from "./release/sbom.ts";

/**
 * Writes the files of a release: manifests, overlays and chart for its image, the CRD, alerts and dashboard, the
 * kubectl plugin, also for krew, the SBOM, and their checksums.
 */
const { values } = parseArgs({
  options: {
    version: { type: "string", default: "0.0.0" },
    image: { type: "string", default: deployImage() },
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
await writeFile(join(out, "sbom.cdx.json"), await makeSbom(version));
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
  const archive = join(out, "manifests.tar.gz");
  await execa("tar", [...reproducible, "-C", work.path, "-czf", archive, "crds", "deploy"]);
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
  metadata.annotations["artifacthub.io/prerelease"] = String(version.includes("-"));
  await writeFile(join(chart, "Chart.yaml"), stringify(metadata));
  const versions = ["--version", version, "--app-version", version];
  await execa(await releaseTool("helm"), ["package", chart, "--destination", out, ...versions]);
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
