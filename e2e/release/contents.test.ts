import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root } from "#daemon/config/testing/manifests.ts";
import { nodeBinary } from "../support/paths.ts";

let work: string;
/** An image with everything. */
let image: string;

const script = (name: string, ...args: string[]) =>
  execa(nodeBinary(), [join(root, "scripts", name), ...args], { cwd: root, preferLocal: true });

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "plexus-contents-"));
  image = join(work, "image");
  await script("image.ts", "--standalone", "--plugins", "--version=1.2.3", `--rootfs=${image}`);
});
afterAll(() => rm(work, { recursive: true }));

/** The packages of npm in the bundles, by the comments that esbuild writes above each module: `zod 4.6.7`. */
async function bundledPackages(): Promise<string[]> {
  const readable = join(work, "readable");
  const out = `--out=${join(work, "standalone")}`;
  await script("bundle.ts", `--readable=${readable}`);
  await script("bundle.ts", "--standalone", `--readable=${readable}`, out);
  const chunks = (await readdir(join(readable, "chunks"))).map((name) => `chunks/${name}`);
  const folders = new Set<string>();
  for (const name of ["plexusd.js", "plexusctl.js", "standalone.cjs", ...chunks]) {
    const text = await readFile(join(readable, name), "utf8");
    const modules = text.matchAll(
      /^ *\/\/ (?:\S*:\S*\/)?((?:\S*\/)?node_modules\/(?:@[^/\s]+\/)?[^/\s]+)/gm,
    );
    for (const [, folder = ""] of modules) folders.add(folder);
  }
  const manifests = [...folders].map((folder) => readFile(join(root, folder, "package.json")));
  return (await Promise.all(manifests)).map((text) => {
    const { name, version } = JSON.parse(text.toString());
    return `${name} ${version}`;
  });
}

/** Go's modules in the plugins. */
async function pluginModules(): Promise<string[]> {
  const { stdout } = await execa("go", ["version", "-m", join(image, "plexus/plugins")]);
  const modules = stdout.matchAll(/^\t(?:mod|dep)\t(\S+)\t(\S+)/gm);
  const [, go] = /: go(\S+)/.exec(stdout) ?? [];
  return [...Array.from(modules, ([, name, version]) => `${name} ${version}`), `stdlib ${go}`];
}

/** The packages of Debian that have the libraries of the image, and those of its other parts. */
async function debianPackages(): Promise<string[]> {
  const { stdout } = await execa("find", [image, "-name", "*.so.*"]);
  const libraries = stdout.split("\n").map((path) => `*/${basename(path)}`);
  const owners = (await execa("dpkg-query", ["--search", ...libraries])).stdout;
  // Others may own a file of the same name, such as those of another architecture.
  const runtime = /^(lib[\w+.-]+):amd64: (?:\/usr)?\/lib(?:64|\/x86_64-linux-gnu)\/[^/]+$/gm;
  const names = [...owners.matchAll(runtime)].flatMap(([, name]) => name ?? []);
  const all = [...new Set(names), "ca-certificates", "musl"];
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg's
  const format = "--showformat=${Package} ${Version}\n";
  return (await execa("dpkg-query", ["--show", format, ...all])).stdout.trim().split("\n");
}

test("NOTICE and SBOM of an image list what it contains, and dpkg's status what is Debian's", async () => {
  const { devDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const [npm, go, debian] = [
    await bundledPackages(),
    await pluginModules(),
    await debianPackages(),
  ];
  expect(npm.length).toBeGreaterThan(45);
  const runtimes = [`node ${devDependencies.node}`, `bun ${devDependencies.bun}`];
  const expected = [...new Set([...npm, ...go, ...debian, ...runtimes])].toSorted();

  const notice = await readFile(join(image, "licenses/NOTICE"), "utf8");
  const sections = notice.split(/^={100}$/m).slice(1);
  const titles = sections.filter((_, index) => index % 2 === 0).join("");
  const named = titles
    .split("\n")
    .map((line) => line.replace(/ \([^()]*(\([^()]*\)[^()]*)*\)$/, ""));
  const listed = named.filter((line) => line !== "" && !line.startsWith("/usr/share"));
  expect(listed.toSorted()).toEqual(expected);
  for (const text of sections.filter((_, index) => index % 2 === 1))
    expect(text.length).toBeGreaterThan(200);
  for (const name of ["zod", "pino", "ipaddr.js"]) {
    const licence = await readFile(join(root, "node_modules", name, "LICENSE"), "utf8");
    expect(notice).toContain(licence.trim());
  }
  for (const phrase of ["GNU LIBRARY GENERAL PUBLIC LICENSE", "GCC RUNTIME LIBRARY EXCEPTION"])
    expect(notice).toContain(phrase);

  const sbom = JSON.parse(await readFile(join(image, "var/lib/db/sbom/plexus.cdx.json"), "utf8"));
  const components: { name: string; version: string }[] = sbom.components;
  expect(components.map(({ name, version }) => `${name} ${version}`).toSorted()).toEqual(expected);
  expect(sbom.metadata.component).toMatchObject({ name: "plexus", version: "1.2.3" });

  const status = join(image, "var/lib/dpkg/status.d");
  const installed = (await readdir(status)).toSorted();
  expect(installed).toEqual(
    debian
      .map((each) => each.split(" ")[0])
      .filter((name) => name !== "musl")
      .toSorted(),
  );
  for (const name of installed)
    expect(await readFile(join(status, name), "utf8")).toMatch(/^Version: .+$/m);
  expect(await readFile(join(image, "etc/os-release"), "utf8")).toContain("ID=debian");
}, 300_000);

test("every archive of a release and of the Docker driver has LICENSE and NOTICE", async () => {
  await script("docker.ts");
  const release = join(root, "dist/release");
  const archives = (await readdir(release)).filter((name) => /\.t?gz$/.test(name));
  expect(archives.length).toBe(3);
  for (const archive of [
    ...archives.map((name) => join(release, name)),
    join(root, "dist/plexus-docker.tar.gz"),
  ]) {
    const { stdout } = await execa("tar", ["-tzf", archive]);
    expect(stdout, archive).toMatch(/(^|\/)LICENSE$/m);
    expect(stdout, archive).toMatch(/(^|\/)NOTICE$/m);
  }
}, 60_000);
