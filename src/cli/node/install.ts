import { existsSync } from "node:fs";
import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, listFlag, switchFlag, textFlag } from "#cli/flags.ts";
import { defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { installFile } from "./install-file.ts";
import { listPluginDirs } from "./plugin-dirs.ts";

/** `plexusctl install`: what the DaemonSet's init container runs. */
export const installCommand = command({
  name: "install",
  summary: "copy the executables into the node's plugin directory",
  description: `Copies the shim, and with --standalone the standalone engine, into the container runtime's plugin
directory. Safe while the old ones run; files with the same content are not replaced. A standalone
engine that is already installed is always brought to the same version.

The shim executes plugins from the directories that the container runtime names and from those that
a file on the host lists. The command writes that list: binDir of the configuration and each
--plugin-dir.`,
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
    "plugin-dir": listFlag(
      "DIR",
      "a further directory of plugins, writable by root only; may be repeated",
    ),
    "plugin-dirs-file": commonFlags.pluginDirsFile,
  },
  async run({ flags }, output) {
    const config =
      flags.config === ""
        ? defaultConfig
        : parseConfig(await readFile(flags.config, "utf8"), flags.config);
    const binDir = flags["bin-dir"] || config.nodeConf.shimDir;
    await mkdir(binDir, { recursive: true });
    const { shim, standalone } = executableNames;
    const withStandalone = flags.standalone || existsSync(join(binDir, standalone));
    // The engine first: a new shim may need a new engine, an old shim works with either.
    for (const name of withStandalone ? [standalone, shim] : [shim]) {
      const target = join(binDir, name);
      const result = await installFile(join(flags.from, name), target).catch((error) =>
        explainRefusal(binDir, error),
      );
      output.out(`${target}: ${result}`);
    }
    const configured = config.engine.binDir === undefined ? [] : [config.engine.binDir];
    const dirs = new Set([...configured, ...flags["plugin-dir"]]);
    // The container runtime names this one.
    dirs.delete(binDir);
    await listPluginDirs(flags["plugin-dirs-file"], { dirs: [...dirs], output });
    return ExitCode.Done;
  },
});

/** Adds advice: root without capabilities can write only into directories that root owns. */
async function explainRefusal(dir: string, error: unknown): Promise<never> {
  const { code } = error as NodeJS.ErrnoException;
  const owner = (await stat(dir).catch(() => undefined))?.uid ?? 0;
  if (code !== "EACCES" || owner === 0) throw error;
  const message = `${dir} belongs to user ${owner}, and root cannot write there without the capability DAC_OVERRIDE: see deploy/overlays/kubespray`;
  throw new Error(`${errorMessage(error)}: ${message}`, { cause: error });
}
