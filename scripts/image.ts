import { hash } from "node:crypto";
import {
  copyFile,
  cp,
  mkdir,
  mkdtempDisposable,
  readFile,
  rename,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { writeLicences } from "./components/licences.ts";
import { sbomOf } from "./components/sbom.ts";
import { type Contents, shipped } from "./components/shipped.ts";
import { contentsOf, namesOf } from "./image/flavours.ts";
import { install, installCaBundle, installProgram, reproducible } from "./image/root-files.ts";
import { deployImage } from "./release/image.ts";

/**
 * Assembles the image's root file system from local files (the pinned Node with its libraries, the bundles, the shim).
 * Packs it as dist/plexus-image.tar, for `ctr images import` and `docker load`. It needs no registry and no container
 * engine. The Dockerfile uses --rootfs to do the same inside a build stage.
 */
const { values } = parseArgs({
  options: {
    version: { type: "string", default: "0.0.0" },
    commit: { type: "string", default: "unknown" },
    name: { type: "string", default: deployImage() },
    standalone: { type: "boolean", default: false },
    plugins: { type: "boolean", default: false },
    rootfs: { type: "string" },
  },
});

/** The files under /plexus in the image. */
const payload: Readonly<Record<string, string>> = {
  "dist/plexusd.js": "plexusd.js",
  "dist/plexusctl.js": "plexusctl.js",
  "dist/chunks": "chunks",
  "dist/plexus": "plexus",
  ...(values.standalone ? { "dist/plexus-standalone": "plexus-standalone" } : {}),
  ...(values.plugins ? { "dist/plugins": "plugins" } : {}),
};

const goArchitectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

if (values.rootfs === undefined) await buildTar();
else await fillRoot(values.rootfs);

async function buildTar(): Promise<void> {
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-image-"));
  const root = join(work.path, "rootfs");
  await fillRoot(root);
  const layer = join(work.path, "layer.tar");
  await execa("tar", [...reproducible, "-C", root, "-cf", layer, "."]);
  await writeArchive(work.path, hash("sha256", await readFile(layer)));
  const archive = join(work.path, "image.tar");
  const files = ["manifest.json", "config.json", "layer.tar"];
  await execa("tar", [...reproducible, "-C", work.path, "-cf", archive, ...files]);
  await mkdir("dist", { recursive: true });
  // Another `make image` may run.
  const draft = `dist/.plexus-image-${process.pid}.tar`;
  await copyFile(archive, draft);
  await rename(draft, "dist/plexus-image.tar");
  const { size } = await stat("dist/plexus-image.tar");
  process.stdout.write(`dist/plexus-image.tar: ${values.name}, ${(size / 1e6).toFixed(1)} MB\n`);
}

async function fillRoot(root: string): Promise<void> {
  const directories = [
    "plexus",
    "etc/ssl/certs",
    "etc/plexus",
    "run/plexus",
    "var/lib/plexus",
    "tmp",
  ];
  for (const dir of directories) await mkdir(join(root, dir), { recursive: true });
  await installProgram(root, "node_modules/.bin/node", "plexus/node");
  for (const [from, to] of Object.entries(payload)) {
    if ((await stat(from)).isDirectory())
      await cp(from, join(root, "plexus", to), { recursive: true });
    else await install(from, join(root, "plexus", to), to.endsWith(".js") ? 0o644 : 0o755);
  }
  await installCaBundle(root);
  await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/:/sbin/nologin\n");
  await writeFile(join(root, "etc/group"), "root:x:0:\n");
  await describe(root, await contentsOf(values));
}

/** Adds what says which software the image contains: licences, an SBOM, and for scanners the packages of Debian. */
async function describe(root: string, contents: Contents): Promise<void> {
  const { components, packages } = await shipped(contents);
  const text = async (path: string, content: string): Promise<void> => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  };
  await writeLicences(join(root, "licenses"), components);
  const { version } = values;
  await text("var/lib/db/sbom/plexus.cdx.json", sbomOf({ version, components }));
  if (packages.length === 0) return;
  for (const { name, status } of packages) await text(`var/lib/dpkg/status.d/${name}`, status);
  for (const file of ["etc/os-release", "etc/debian_version"])
    await install(join("/", file), join(root, file), 0o644);
}

async function writeArchive(work: string, layerDigest: string): Promise<void> {
  const config = {
    architecture: goArchitectures[process.arch],
    os: "linux",
    created: "1970-01-01T00:00:00Z",
    config: {
      Entrypoint: ["/plexus/node", "/plexus/plexusd.js"],
      Env: ["PATH=/plexus", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
      Labels: {
        "org.opencontainers.image.title": "plexus",
        "org.opencontainers.image.version": values.version,
        "org.opencontainers.image.revision": values.commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
      },
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${layerDigest}`] },
  };
  await writeFile(join(work, "config.json"), JSON.stringify(config));
  const manifest = [
    { Config: "config.json", RepoTags: namesOf(values.name, values), Layers: ["layer.tar"] },
  ];
  await writeFile(join(work, "manifest.json"), JSON.stringify(manifest));
}
