import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { parseConfig } from "#daemon/config/parse.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  listFlag,
  stringFlag,
} from "./command.ts";
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
  --bin-dir DIR            the node's plugin directory (default ${defaultPaths.cniBinDir})
  --standalone             also install plexus-standalone: attaches pods while plexusd is away
  --config FILE            the configuration of plexusd, for its binDir
  --plugin-dir DIR         another directory of plugins, writable by root alone; may be repeated
  --plugin-dirs-file FILE  the list (default ${defaultPaths.pluginDirsFile})`,
  flags: {
    from: { type: "string", default: defaultPaths.imageDir },
    "bin-dir": { type: "string", default: defaultPaths.cniBinDir },
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
  const binDir = stringFlag(args, "bin-dir");
  await mkdir(binDir, { recursive: true });
  const { shim, standalone } = executableNames;
  const names: string[] = [shim];
  if (args.flags.standalone === true || (await exists(join(binDir, standalone)))) {
    // First: a new shim may need a new engine, an old shim is content with either.
    names.unshift(standalone);
  }
  for (const name of names) {
    const result = await installFile(join(from, name), join(binDir, name));
    output.out(`${join(binDir, name)}: ${result}`);
  }
  const dirs = new Set([...(await configuredBinDir(args)), ...listFlag(args, "plugin-dir")]);
  // The container runtime names this one itself.
  dirs.delete(binDir);
  await listPluginDirs(stringFlag(args, "plugin-dirs-file"), { dirs: [...dirs], output });
  return ExitCode.Done;
}

/** The plugin directory that the configuration adds to the container runtime's. */
async function configuredBinDir(args: CommandArguments): Promise<string[]> {
  const path = stringFlag(args, "config");
  if (path === "") return [];
  const { binDir } = parseConfig(await readFile(path, "utf8"), path).engine;
  return binDir === undefined ? [] : [binDir];
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
