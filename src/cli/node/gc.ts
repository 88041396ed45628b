import { execFile } from "node:child_process";
import { join } from "node:path";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { forget } from "./forget.ts";

/** Where plugins find programs such as iptables. */
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** `plexusctl gc`. */
export const gcCommand: Command = {
  name: "gc",
  synopsis: "[--forget SANDBOX] [--bin-dir DIR] [--socket PATH] [--mount-namespace FILE]",
  summary: "detach now what sandboxes that no longer exist have left behind",
  help: `Has plexusd repeat every teardown that failed, was interrupted or never came, whether it is due or
not, one after another, and prints what became of each. Runs the shim, which executes the plugins:
on the node itself as root, or in the container of deploy/overlays/agent.

  --bin-dir DIR           the node's plugin directory (default ${defaultPaths.cniBinDir})
  --socket PATH           the socket of plexusd (default ${defaultPaths.socket})
  --mount-namespace FILE  execute the plugins in this mount namespace, such as /proc/1/ns/mnt, with
                          the shim of the container image
  --forget SANDBOX        instead, remove the record of this sandbox (container ID, or its beginning)
                          without executing a plugin, and print what stays allocated: for a
                          teardown that can never succeed; also without plexusd
  --attached              with --forget: also a sandbox that is attached
  --state-dir DIR         with --forget: attachment records (default ${defaultPaths.stateDir})

Exit code 1: something remains, plexusd cannot be reached, or the sandbox cannot be forgotten.`,
  flags: {
    "bin-dir": { type: "string", default: defaultPaths.cniBinDir },
    socket: { type: "string", default: defaultPaths.socket },
    "mount-namespace": { type: "string" },
    forget: { type: "string" },
    attached: { type: "boolean", default: false },
    "state-dir": { type: "string", default: defaultPaths.stateDir },
  },
  argumentCount: 0,
  run: gc,
};

async function gc(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const sandbox = stringFlag(args, "forget");
  if (sandbox !== "") {
    const stateDir = stringFlag(args, "state-dir");
    return forget({ stateDir, sandbox, attached: args.flags.attached === true }, output);
  }
  const binDir = stringFlag(args, "bin-dir");
  const mountNamespace = stringFlag(args, "mount-namespace");
  const isInContainer = mountNamespace !== "";
  const shim = join(isInContainer ? defaultPaths.imageDir : binDir, executableNames.shim);
  const options = isInContainer ? [`--mount-namespace=${mountNamespace}`] : [];
  const env = { PATH: systemPath, CNI_PATH: binDir, PLEXUS_SOCKET: stringFlag(args, "socket") };
  const { failure, stdout, stderr } = await run(shim, ["agent", "--once", ...options], env);
  for (const line of linesOf(stdout)) output.out(line);
  for (const line of linesOf(stderr)) output.err(line);
  if (failure !== undefined && stdout === "" && stderr === "") throw failure;
  return failure === undefined ? ExitCode.Done : ExitCode.Failed;
}

function run(
  file: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<{ failure: Error | undefined; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(file, args, { env, maxBuffer: Number.POSITIVE_INFINITY }, (error, stdout, stderr) =>
      resolve({ failure: error ?? undefined, stdout, stderr }),
    );
  });
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
