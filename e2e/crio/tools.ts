import { copyFile, cp, mkdir, mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { releaseName } from "../cluster/machine/apt.ts";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { type DebianPackages, debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";
import { downloadedModule } from "../cluster/machine/go-module.ts";
import { run } from "../cluster/machine/run.ts";

/** Where the programs lie that a node with CRI-O is made of. */
export interface CrioTools {
  /** crio, pinns, and cri: see client/main.go. */
  readonly crio: string;
  readonly conmon: string;
  /** Libraries of conmon. */
  readonly libraries: string;
  readonly runc: string;
  /** The reference CNI plugins. */
  readonly cniPlugins: string;
  /** A static init: see cluster/machine/init.c. */
  readonly init: string;
}

/** What CRI-O needs besides runc, to run and to be built. Debian 13 has GLib with another name. */
async function debianPackages(): Promise<DebianPackages> {
  const glib = (await releaseName()) === "bookworm" ? "libglib2.0-0" : "libglib2.0-0t64";
  return {
    name: "debian-crio",
    fromRelease: ["conmon", glib, "libseccomp2", "libseccomp-dev"],
  };
}

const module = "github.com/cri-o/cri-o";

/** Of this release alone, of the new numbering, the Go module is served. */
const version = "v1.34.0";

/** Seccomp needs libseccomp, which is unpacked. Left out is what needs other libraries. */
const buildTags = [
  "seccomp",
  "containers_image_openpgp",
  "containers_image_ostree_stub",
  "exclude_graphdriver_btrfs",
  "btrfs_noversion",
];

/** Finds all programs, and builds or downloads what is not in the cache yet. */
export async function prepareCrioTools(): Promise<CrioTools> {
  const [debian, own] = await Promise.all([debianRoot(), unpackedPackages(await debianPackages())]);
  const conmon = join(own, "usr/bin/conmon");
  const libraries = join(own, "usr/lib", await multiarchName());
  const crio = await crioDirectory({ root: own, libraries });
  await run([conmon, "--version"], { env: { LD_LIBRARY_PATH: libraries } });
  return {
    crio,
    conmon,
    libraries,
    runc: join(debian, "usr/sbin/runc"),
    cniPlugins: join(debian, "usr/lib/cni"),
    init: await initProgram(),
  };
}

async function multiarchName(): Promise<string> {
  return (await run(["cc", "-print-multiarch"])).trim();
}

/** Where the headers and libraries are that CRI-O is built with. */
interface UnpackedPackages {
  readonly root: string;
  readonly libraries: string;
}

async function crioDirectory(packages: UnpackedPackages): Promise<string> {
  const client = await readFile(join(import.meta.dirname, "client/main.go"));
  const inputs = [await run(["go", "version"]), version, buildTags.join(" "), client];
  return cachedDirectory("crio", inputs, (directory) => buildCrio(packages, directory));
}

/** Builds in a copy of the module, so that its own go.mod decides about every version, the client's too. */
async function buildCrio({ root, libraries }: UnpackedPackages, directory: string): Promise<void> {
  const origin = await downloadedModule(`${module}@${version}`);
  await using scratch = await mkdtempDisposable(join(tmpdir(), "plexus-crio-"));
  const source = join(scratch.path, "source");
  await cp(origin, source, { recursive: true });
  await run(["chmod", "-R", "u+w", source]);
  await mkdir(join(source, "cmd/cri"));
  const client = join(import.meta.dirname, "client/main.go");
  await copyFile(client, join(source, "cmd/cri/main.go"));
  const flags = ["-trimpath", "-ldflags", "-s -w", "-tags", buildTags.join(" ")];
  await run(["go", "build", ...flags, "-o", `${directory}/`, "./cmd/crio", "./cmd/cri"], {
    cwd: source,
    env: {
      GOFLAGS: "-buildvcs=false",
      // The machine need not have pkg-config, and its libraries would be others.
      PKG_CONFIG: "true",
      CGO_CFLAGS: `-I${join(root, "usr/include")}`,
      CGO_LDFLAGS: `-L${libraries} -lseccomp`,
    },
  });
  await run(["make", "-C", join(source, "pinns")]);
  await copyFile(join(source, "bin/pinns"), join(directory, "pinns"));
  await run([join(directory, "crio"), "--version"]);
}
