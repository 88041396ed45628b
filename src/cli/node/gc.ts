import { join } from "node:path";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { runProgram } from "#lib/run-program.ts";
import { forgetLeftovers, forgetSandbox } from "./forget.ts";

export const gcCommand = command({
  name: "gc",
  summary: "detach the networks of sandboxes that no longer exist",
  description: `Makes plexusd retry every teardown that failed, was interrupted or was never requested, without
waiting for the backoff, and prints each result. Runs the shim, which executes the plugins: run it
as root on the node.

With --forget it removes the record of one sandbox instead and executes no plugin: for a teardown
that can never succeed. It prints what stays allocated. This works without plexusd, too.
--forget-leftovers does that for all sandboxes that plexusctl records --leftovers lists.`,
  flags: {
    "bin-dir": commonFlags.binDir,
    "any-owner": switchFlag("run plugins of any owner, as the container runtime does"),
    socket: commonFlags.socket,
    forget: textFlag("SANDBOX", "forget this sandbox: its container ID or the beginning of it"),
    "forget-leftovers": switchFlag("forget all sandboxes that no longer exist"),
    attached: switchFlag(
      "with --forget: even if the sandbox is attached, or a call for it is running",
    ),
    "state-dir": commonFlags.stateDir,
  },
  failsWhen:
    "some teardowns still fail, plexusd is unavailable, or the sandbox cannot be forgotten",
  async run({ flags }, output, stopping) {
    if (flags.attached && flags.forget === "") throw new Error("--attached is for --forget");
    if (flags.forget !== "" && flags["forget-leftovers"])
      throw new Error("--forget and --forget-leftovers exclude each other");
    if (flags.forget !== "") return forgetSandbox(flags, output);
    if (flags["forget-leftovers"]) return forgetLeftovers(flags["state-dir"], output);
    const binDir = flags["bin-dir"];
    const command = [join(binDir, executableNames.shim), "agent", "--once"];
    if (flags["any-owner"]) command.push("--any-owner");
    // The shim locks each sandbox there, against other operations on it.
    const env = {
      CNI_PATH: binDir,
      PLEXUS_SOCKET: flags.socket,
      PLEXUS_STATE_DIR: flags["state-dir"],
    };
    const { exitCode, stdout, stderr } = await runProgram(command, {
      ...{ env, mayFail: true, stopping },
      // It works on each leftover for a limited time.
      timeoutMs: 0,
    });
    for (const line of stdout.split("\n").filter(Boolean)) output.out(line);
    for (const line of stderr.split("\n").filter(Boolean)) output.err(line);
    if (exitCode === 0) return ExitCode.Done;
    if (stdout === "" && stderr === "") throw new Error(`Command failed: ${command.join(" ")}`);
    return ExitCode.Failed;
  },
});
