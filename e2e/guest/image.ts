import { existsSync } from "node:fs";
import { copyFile, glob, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { debianRoot } from "../cluster/machine/debian.ts";
import { run } from "../cluster/machine/run.ts";
import { type GuestArchitecture, guestPackages } from "./packages.ts";

/** What a guest is started with. */
export interface GuestImage {
  readonly architecture: GuestArchitecture;
  /** The root that QEMU's packages are unpacked below. */
  readonly emulator: string;
  readonly kernel: string;
  readonly initramfs: string;
  /** A directory with the `lib/modules` that the guest gets, and a static `busybox`. */
  readonly files: string;
  /** Directories of this machine that together are the guest's root, by tag; the first that has a file decides. */
  readonly layers: Readonly<Record<string, string>>;
}

/** What the guest needs before it has a root file system. */
const earlyModules = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/**
 * Where the modules are that tests may need: all of the network but the drivers of other hardware. The rest of the
 * kernel's modules would take a minute to index.
 */
const moduleDirectories = [
  "net",
  "lib",
  "crypto",
  "arch/*/crypto",
  "fs/9p",
  "fs/netfs",
  "fs/fscache",
  "fs/overlayfs",
  ...["virtio", "dca", "ptp", "pps", "i2c/algos"].map((name) => `drivers/${name}`),
  ...["*.ko*", "bonding", "ipvlan", "macvlan", "vxlan", "ethernet/intel/igb*"].map(
    (name) => `drivers/net/${name}`,
  ),
];

/** Finds the guest's kernel and programs, and unpacks or makes what is not in the cache yet. */
export async function guestImage(architecture: GuestArchitecture = "amd64"): Promise<GuestImage> {
  const packages = await guestPackages(architecture);
  const { emulator, busybox, programs } = packages;
  // Debian moves them to /usr in newer releases, and the program beside them.
  const found = ["usr/lib/modules", "lib/modules"].map((path) => join(packages.kernel, path));
  const modules = found.find((path) => existsSync(path));
  if (modules === undefined) throw new Error(`there are no modules in ${packages.kernel}`);
  const [release = ""] = await readdir(modules);
  const places = [
    join(packages.kernel, `boot/vmlinuz-${release}`),
    join(modules, release, "vmlinuz"),
  ];
  const kernel = places.find((path) => existsSync(path));
  if (kernel === undefined) throw new Error(`there is no kernel at ${places.join(" or ")}`);
  const init = await readFile(join(import.meta.dirname, "init.sh"));
  const own = await readFile(import.meta.filename);
  const inputs = [packages.kernel, busybox, own, init];
  const files = await cachedDirectory(`guest-${architecture}`, inputs, async (directory) => {
    await copyFile(busybox, join(directory, "busybox"));
    await copyModules(join(modules, release), directory);
    await makeInitramfs(directory, release, init);
  });
  const initramfs = join(files, "initramfs");
  const layers = { ...(programs === undefined ? {} : { programs }), host: "/" };
  return { architecture, emulator, kernel, initramfs, files, layers };
}

/** Modules as busybox loads them: not compressed, with its own index. */
async function copyModules(source: string, directory: string): Promise<void> {
  const release = basename(source);
  const target = join(directory, "lib/modules", release);
  await mkdir(target, { recursive: true });
  const wanted = moduleDirectories.map((path) => `kernel/${path}`);
  const paths = await Array.fromAsync(glob(["modules.*", ...wanted], { cwd: source }));
  await run(["cp", "-a", "--parents", ...paths, target], { cwd: source });
  const busybox = await ownBusybox();
  await run(["find", target, "-name", "*.ko.xz", "-exec", busybox, "unxz", "{}", "+"]);
  await run([busybox, "depmod", "-b", directory, release]);
}

/** The busybox of this machine's architecture. */
async function ownBusybox(): Promise<string> {
  return join(await debianRoot(), "usr/bin/busybox");
}

/** The initramfs has busybox, init.sh and the modules that reach the host's files. */
async function makeInitramfs(directory: string, release: string, init: Buffer): Promise<void> {
  const root = join(directory, "initramfs-root");
  const modules = join("lib/modules", release);
  const index = await readFile(join(directory, modules, "modules.dep"), "utf8");
  for (const path of withDependencies(index, earlyModules)) {
    await mkdir(dirname(join(root, modules, path)), { recursive: true });
    await copyFile(join(directory, modules, path), join(root, modules, path));
  }
  for (const name of ["modules.dep", "modules.builtin"])
    await copyFile(join(directory, modules, name), join(root, modules, name));
  for (const name of ["bin", "dev", "proc", "layers", "scratch", "root"])
    await mkdir(join(root, name));
  await copyFile(join(directory, "busybox"), join(root, "bin/busybox"));
  await writeFile(join(root, "init"), init, { mode: 0o755 });
  const pack = `find . | "$1" cpio -o -H newc >"$2"`;
  await run(["sh", "-euc", pack, "sh", await ownBusybox(), join(directory, "initramfs")], {
    cwd: root,
  });
  await rm(root, { recursive: true });
}

/** The paths of these modules and their dependencies, by modules.dep, without what the kernel has built in. */
function withDependencies(index: string, names: readonly string[]): Set<string> {
  const lines = index.split("\n").map((line) => line.split(/:? +|:$/).filter(Boolean));
  const moduleName = (path: string): string =>
    (path.split("/").at(-1) ?? "").replace(/\.ko$/, "").replaceAll("-", "_");
  return new Set(lines.filter(([path = ""]) => names.includes(moduleName(path))).flat());
}
