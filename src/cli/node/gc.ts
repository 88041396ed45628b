import { execFile } from "node:child_process";
import { join } from "node:path";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { forget } from "./forget.ts";

/** Where plugins find programs such as iptables. */
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export const gcCommand = command({
  name: "gc",
  summary: "detach the networks of sandboxes that no longer exist",
  description: `Makes plexusd retry every teardown that failed, was interrupted or was never requested, without
waiting for the backoff, and prints each result. Runs the shim, which executes the plugins: run it
as root on the node, or in the container of deploy/overlays/agent.

With --forget it removes the record of one sandbox instead and executes no plugin: for a teardown
that can never succeed. It prints what stays allocated. This works without plexusd, too.`,
  flags: {
    "bin-dir": commonFlags.binDir,
    socket: commonFlags.socket,
    "mount-namespace": textFlag(
      "FILE",
      "execute the plugins in this mount namespace, such as /proc/1/ns/mnt, with the shim of the container image",
    ),
    forget: textFlag("SANDBOX", "forget this sandbox: its container ID or the beginning of it"),
    attached: switchFlag("with --forget: even if the sandbox is attached"),
    "state-dir": {
      ...commonFlags.stateDir,
      help: `with --forget: ${commonFlags.stateDir.help}`,
    },
  },
  failsWhen:
    "some teardowns still fail, plexusd is unavailable, or the sandbox cannot be forgotten",
  async run({ flags }, output) {
    if (flags.forget !== "") {
      const { attached, forget: sandbox } = flags;
      return forget({ stateDir: flags["state-dir"], sandbox, attached }, output);
    }
    const binDir = flags["bin-dir"];
    const mountNamespace = flags["mount-namespace"];
    const isInContainer = mountNamespace !== "";
    const shim = join(isInContainer ? defaultPaths.imageDir : binDir, executableNames.shim);
    const options = isInContainer ? [`--mount-namespace=${mountNamespace}`] : [];
    const env = { PATH: systemPath, CNI_PATH: binDir, PLEXUS_SOCKET: flags.socket };
    const { failure, stdout, stderr } = await execute(shim, ["agent", "--once", ...options], env);
    for (const line of linesOf(stdout)) output.out(line);
    for (const line of linesOf(stderr)) output.err(line);
    if (failure !== null && stdout === "" && stderr === "") throw failure;
    return failure === null ? ExitCode.Done : ExitCode.Failed;
  },
});

function execute(
  file: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<{ failure: Error | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const options = { env, maxBuffer: Number.POSITIVE_INFINITY };
    execFile(file, args, options, (failure, stdout, stderr) =>
      resolve({ failure, stdout, stderr }),
    );
  });
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
