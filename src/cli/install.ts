import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { defaultPaths, executableNames } from "#lib/default-paths.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "./command.ts";
import { installFile } from "./install-file.ts";

/** `plexusctl install`: what the DaemonSet's init container runs. */
export const installCommand: Command = {
  name: "install",
  synopsis: "[--from DIR] [--bin-dir DIR] [--standalone]",
  summary: "copy the executables into the node's plugin directory",
  help: `Copies the shim, and on request the standalone engine, into the container runtime's plugin
directory. Safe while old ones are running; files that are the same are left alone. A standalone
engine that is already there is brought to the same version.

  --from DIR      where the files are (default ${defaultPaths.imageDir})
  --bin-dir DIR   the node's plugin directory (default ${defaultPaths.cniBinDir})
  --standalone    also install plexus-standalone: attaches pods while plexusd is away`,
  flags: {
    from: { type: "string", default: defaultPaths.imageDir },
    "bin-dir": { type: "string", default: defaultPaths.cniBinDir },
    standalone: { type: "boolean", default: false },
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
  return ExitCode.Done;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
