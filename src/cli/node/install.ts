import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  listFlag,
  stringFlag,
} from "#cli/command.ts";
import { type DaemonConfig, defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { installFile } from "./install-file.ts";
import { listPluginDirs } from "./plugin-dirs.ts";

/** `plexusctl install`: what the DaemonSet's init container runs. */
export const installCommand: Command = {
  name: "install",
  synopsis: "[--from DIR] [--bin-dir DIR] [--standalone] [--config FILE] [--plugin-dir DIR]...",
  summary: "copy the executables into the node's plugin directory",
  help: `Copies the shim, and on request the standalone engine, into the container runtime's plugin
directory. Safe while old ones are running; files that are the same are left alone. A standalone
engine that is already there is brought to the same version.

The shim executes plugins from the directories that the container runtime names, and from those
that a file on the host lists: the configuration's binDir, and what --plugin-dir names.

  --from DIR               where the files are (default ${defaultPaths.imageDir})
  --bin-dir DIR            the node's plugin directory (default: the first of the configuration's
                           cniBinDir, else ${defaultPaths.cniBinDir})
  --standalone             also install plexus-standalone: attaches pods while plexusd is away
  --config FILE            the configuration of plexusd, for its cniBinDir and binDir
  --plugin-dir DIR         another directory of plugins, writable by root alone; may be repeated
  --plugin-dirs-file FILE  the list (default ${defaultPaths.pluginDirsFile})`,
  flags: {
    from: { type: "string", default: defaultPaths.imageDir },
    "bin-dir": { type: "string" },
    standalone: { type: "boolean", default: false },
    config: { type: "string" },
    "plugin-dir": { type: "string", multiple: true },
    "plugin-dirs-file": { type: "string", default: defaultPaths.pluginDirsFile },
  },
  argumentCount: 0,
  run: install,
};

async function install(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const from = stringFlag(args, "from");
  const config = await configuration(args);
  const binDir = stringFlag(args, "bin-dir") || config.nodeConf.shimDir;
  await mkdir(binDir, { recursive: true });
  const { shim, standalone } = executableNames;
  const names: string[] = [shim];
  if (args.flags.standalone === true || (await exists(join(binDir, standalone)))) {
    // First: a new shim may need a new engine, an old shim is content with either.
    names.unshift(standalone);
  }
  for (const name of names) {
    const result = await installFile(join(from, name), join(binDir, name)).catch((error) =>
      explainRefusal(binDir, error),
    );
    output.out(`${join(binDir, name)}: ${result}`);
  }
  const configured = config.engine.binDir === undefined ? [] : [config.engine.binDir];
  const dirs = new Set([...configured, ...listFlag(args, "plugin-dir")]);
  // The container runtime names this one itself.
  dirs.delete(binDir);
  await listPluginDirs(stringFlag(args, "plugin-dirs-file"), { dirs: [...dirs], output });
  return ExitCode.Done;
}

/** plexusd's configuration, as far as it is given; otherwise the default one. */
async function configuration(args: CommandArguments): Promise<DaemonConfig> {
  const path = stringFlag(args, "config");
  return path === "" ? defaultConfig : parseConfig(await readFile(path, "utf8"), path);
}

/**
 * Root without capabilities, as in the init container, may write in root's directories only.
 * @throws the error, with what can be done about it
 */
async function explainRefusal(dir: string, error: unknown): Promise<never> {
  const { code } = error as NodeJS.ErrnoException;
  const owner = (await stat(dir).catch(() => undefined))?.uid ?? 0;
  if (code !== "EACCES" || owner === 0) throw error;
  const message = `${dir} belongs to user ${owner}, and without the capability DAC_OVERRIDE root cannot write there: see deploy/overlays/kubespray`;
  throw new Error(`${errorMessage(error)}: ${message}`, { cause: error });
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
