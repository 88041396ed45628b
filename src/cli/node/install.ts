import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { link, lstat, mkdir, readdir, rm, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { defaultConfig } from "#daemon/config/config.ts";
import { mergeConfigFiles, readConfigFiles } from "#daemon/config/config-files.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { listPluginDir, removePluginDirs } from "./plugin-dirs.ts";

const interruptedMs = 60_000;

/** `plexusctl install`: what the DaemonSet's init container runs. */
export const installCommand = command({
  name: "install",
  summary: "copy the executables into the node's plugin directory",
  description: `Copies the shim, and with --standalone the standalone engine, into the container runtime's plugin
directory. Safe while the old ones run; files with the same content are not replaced. A standalone
engine that is already installed is always brought to the same version.

The shim executes plugins from the directories that the container runtime names, and that a file on
the host lists. The command writes that list, with the binDir of the configuration.`,
  flags: {
    from: textFlag("DIR", "where the files are", defaultPaths.imageDir),
    "bin-dir": textFlag(
      "DIR",
      `the node's plugin directory; by default the first cniBinDir of the configuration, else ${defaultPaths.cniBinDir}`,
    ),
    standalone: switchFlag(
      "also install plexus-standalone, which attaches pods while plexusd is unavailable",
    ),
    config: textFlag("FILE", "the configuration of plexusd, for its cniBinDir and binDir"),
    "plugin-dirs-file": commonFlags.pluginDirsFile,
  },
  async run({ flags }, output) {
    const config =
      flags.config === ""
        ? defaultConfig
        : mergeConfigFiles(flags.config, await readConfigFiles(flags.config)).config;
    const binDir = flags["bin-dir"] || config.nodeConf.shimDir;
    await mkdir(binDir, { recursive: true, mode: 0o755 });
    const { shim, standalone } = executableNames;
    const withStandalone = flags.standalone || existsSync(join(binDir, standalone));
    // The engine first: a new shim may need a new engine, an old shim works with either.
    for (const name of withStandalone ? [standalone, shim] : [shim]) {
      const [source, target] = [join(flags.from, name), join(binDir, name)];
      if (name === standalone && !existsSync(source))
        throw missingInImage(source, "standalone", flags.standalone ? "" : `, or delete ${target}`);
      const result = await installFile(source, target).catch((error) =>
        explainRefusal(binDir, error),
      );
      output.out(`${target}: ${result}`);
    }
    const { binDir: further } = config.engine;
    const list = flags["plugin-dirs-file"];
    // The container runtime names its own directory.
    if (further === undefined || further === binDir) await removePluginDirs(list, output);
    else await listPluginDir(list, { dir: further, output });
    return ExitCode.Done;
  },
});

/** The error that names the images with what this one lacks. */
export function missingInImage(
  path: string,
  flavour: "standalone" | "plugins",
  orElse = "",
): Error {
  return new Error(
    `the image has no ${path}: use a release whose tag has -${flavour}, or build it with ${flavour.toUpperCase()}=1${orElse}`,
  );
}

/** Adds advice: root without capabilities can write only into directories that root owns. */
async function explainRefusal(dir: string, error: unknown): Promise<never> {
  const { code } = error as NodeJS.ErrnoException;
  const owner = (await stat(dir).catch(() => undefined))?.uid ?? 0;
  if (code !== "EACCES" || owner === 0) throw error;
  const message = `${dir} belongs to user ${owner}, and root cannot write there without the capability DAC_OVERRIDE: see deploy/overlays/kubespray`;
  throw new Error(`${errorMessage(error)}: ${message}`, { cause: error });
}

/**
 * Installs an executable by copy, fsync and rename within its directory: running processes keep the
 * old file, the next execution gets the new one, and a crash leaves one or the other. A symlink at
 * the target is replaced, not followed. @throws EEXIST with `isNew`, if there is anything at the target
 */
export async function installFile(
  from: string,
  to: string,
  { isNew = false } = {},
): Promise<"installed" | "unchanged"> {
  await sweepTemporaries(to);
  if (!isNew && (await isInstalled(to, from))) return "unchanged";
  const place = isNew ? { place: placeNew } : {};
  await atomicWrite(to, createReadStream(from), { mode: 0o755, ...place });
  return "installed";
}

/** Unlike a rename, this replaces no file. @throws EEXIST */
async function placeNew(temporary: string, path: string): Promise<void> {
  await link(temporary, path);
  await unlink(temporary);
}

/** The checksum of a file's content, in hexadecimal digits. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

async function isInstalled(path: string, from: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isFile() !== true || (found.mode & 0o7777) !== 0o755) return false;
  return (await sha256OfFile(path)) === (await sha256OfFile(from));
}

/** Removes the files of an interrupted installation. One that was just written may be in use. */
async function sweepTemporaries(to: string): Promise<void> {
  const names = await readdir(dirname(to));
  for (const name of names.filter((each) => targetOfTemporaryName(each) === basename(to))) {
    const path = join(dirname(to), name);
    const file = await ifPresent(lstat(path));
    if (file !== undefined && Date.now() - file.mtimeMs > interruptedMs)
      await rm(path, { force: true });
  }
}
