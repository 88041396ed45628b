import { existsSync } from "node:fs";
import { cp, mkdir, readdir, realpath, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { writeLicences } from "./components/licences.ts";
import { shipped } from "./components/shipped.ts";
import {
  caBundlePath,
  install,
  installCaBundle,
  installProgram,
  reproducible,
  sharedLibraries,
} from "./image/root-files.ts";

/**
 * Packs the network driver for Docker from local files (docs/user/docker.md): by default as
 * dist/plexus-docker.tar.gz, to be unpacked on a host, with a systemd unit; with --plugin as
 * dist/docker-plugin/, the directory that `docker plugin create` takes.
 */
const { values } = parseArgs({ options: { plugin: { type: "boolean", default: false } } });

/** Programs that the driver and CNI plugins execute; a host has them, a managed plugin contains them. */
const programs = ["ip", "nsenter", "true", "iptables", "ip6tables", "nft"];

/** Of the managed plugin, among them mount points. */
const emptyDirectories = [
  ...["run/docker/plugins", "run/netns", "run/plexus", "var/lib/plexus", "etc/plexus"],
  ...["tmp", "host", "proc", "sys", "dev"],
];

if (values.plugin) await buildPlugin("dist/docker-plugin");
else await buildArchive("dist/docker-root", "dist/plexus-docker.tar.gz");

async function buildArchive(root: string, archive: string): Promise<void> {
  await rm(root, { recursive: true, force: true });
  await installDriver(join(root, "usr/lib/plexus"));
  const { components } = await shipped({ bundles: ["plexusd"], copied: [] });
  await writeLicences(join(root, "usr/lib/plexus"), components);
  const unit = "plexus-docker.service";
  await install(join("deploy/docker", unit), join(root, "etc/systemd/system", unit), 0o644);
  await mkdir(join(root, "etc/plexus/networks"), { recursive: true });
  // Leave out the directories above, which belong to the host.
  const own = ["usr/lib/plexus", join("etc/systemd/system", unit), "etc/plexus"];
  await execa("tar", [...reproducible, "-C", root, "-czf", archive, ...own]);
  await rm(root, { recursive: true });
  process.stdout.write(`${archive}\n`);
}

async function buildPlugin(dir: string): Promise<void> {
  await rm(dir, { recursive: true, force: true });
  const root = join(dir, "rootfs");
  await install("deploy/docker/config.json", join(dir, "config.json"), 0o644);
  await installDriver(join(root, "usr/lib/plexus"));
  const copied = await installProgram(root, "node_modules/.bin/node", "usr/lib/plexus/node");
  const pluginDir = cniPluginDir();
  for (const name of await readdir(pluginDir)) {
    copied.push(...(await installProgram(root, join(pluginDir, name), join("opt/cni/bin", name))));
  }
  for (const name of programs) {
    const { stdout } = await execa("sh", ["-c", 'command -v "$0"', name], {
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
    });
    // `true` as a shell builtin has no path.
    const path = stdout.startsWith("/") ? stdout : "/bin/true";
    copied.push(...(await installProgram(root, path, join("usr/bin", name))));
  }
  await installModules(root);
  await installCaBundle(root);
  const caBundle = caBundlePath() !== undefined;
  const { components } = await shipped({ bundles: ["plexusd"], copied, caBundle });
  await writeLicences(join(root, "licenses"), components);
  for (const dir of emptyDirectories) await mkdir(join(root, dir), { recursive: true });
  process.stdout.write(`${dir}\n`);
}

/** The files of Plexus in the driver. */
async function installDriver(dir: string): Promise<void> {
  await install(await realpath("node_modules/.bin/node"), join(dir, "node"), 0o755);
  await install("dist/plexusctl.js", join(dir, "plexusctl.js"), 0o644);
  await install("dist/plexus", join(dir, "plexus"), 0o755);
  await cp("dist/chunks", join(dir, "chunks"), { recursive: true });
}

/** Files that programs load from built-in paths, such as the extensions of iptables. */
async function installModules(root: string): Promise<void> {
  const libraries = await sharedLibraries(await realpath("node_modules/.bin/node"));
  const libc = libraries.find((path) => basename(path).startsWith("libc.")) ?? "";
  for (const dir of [join("/usr", dirname(libc)), "/usr/lib64", "/usr/lib"]) {
    const modules = join(dir, "xtables");
    if (existsSync(modules)) await cp(modules, join(root, modules), { recursive: true });
  }
}

/** The directory of the reference plugins, as scripts/system-deps.sh finds it. */
function cniPluginDir(): string {
  const candidates = [process.env.CNI_PLUGIN_DIR, "/opt/cni/bin", "/usr/lib/cni"];
  const found = candidates.find((dir) => dir !== undefined && existsSync(join(dir, "host-local")));
  if (found === undefined)
    throw new Error("the CNI reference plugins are missing: run `make deps`");
  return found;
}
