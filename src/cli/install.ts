import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { type CliOutput, type Command, type CommandArguments, stringFlag } from "./command.ts";
import { installFile } from "./install-file.ts";

/** `plexusctl install`: what the DaemonSet's init container runs. */
export const installCommand: Command = {
  name: "install",
  synopsis: "[--from DIR] [--bin-dir DIR] [--standalone]",
  summary: "put the executables into the node's plugin directory",
  help: `Copies the shim, and on request the standalone engine, into the container runtime's plugin
directory. Safe while old ones are running; files that are the same are left alone. A standalone
engine that is already there is brought to the same version.

  --from DIR      where the files are (default /plexus)
  --bin-dir DIR   the node's plugin directory (default /opt/cni/bin)
  --standalone    also install plexus-standalone: attaches pods while plexusd is away`,
  flags: {
    from: { type: "string", default: "/plexus" },
    "bin-dir": { type: "string", default: "/opt/cni/bin" },
    standalone: { type: "boolean", default: false },
  },
  arity: 0,
  run: install,
};

async function install(args: CommandArguments, output: CliOutput): Promise<number> {
  const from = stringFlag(args, "from");
  const binDir = stringFlag(args, "bin-dir");
  await mkdir(binDir, { recursive: true });
  const names = ["plexus"];
  if (args.flags.standalone === true || (await exists(join(binDir, "plexus-standalone")))) {
    // First: a new shim may need a new engine, an old shim is content with either.
    names.unshift("plexus-standalone");
  }
  for (const name of names) {
    const result = await installFile(join(from, name), join(binDir, name));
    output.out(`${join(binDir, name)}: ${result}`);
  }
  return 0;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
