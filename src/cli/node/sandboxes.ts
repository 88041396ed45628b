import { setTimeout as sleep } from "node:timers/promises";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { listSandboxes } from "#cri/list-sandboxes.ts";
import { writeSandboxList } from "#cri/sandbox-list-file.ts";

const defaultSocket = "/run/containerd/containerd.sock";
const intervalMs = 30_000;
const timeoutMs = 10_000;

/** `plexusctl sandboxes`. */
export const sandboxesCommand: Command = {
  name: "sandboxes",
  synopsis: "[--runtime-socket PATH] [--write FILE]",
  summary: "list the pod sandboxes that the container runtime knows",
  help: `Asks the container runtime by its CRI socket, and prints container ID and pod of each sandbox.

  --runtime-socket PATH  the runtime that the kubelet uses (default ${defaultSocket})
  --write FILE           instead, write the container IDs to FILE every ${intervalMs / 1000} s, until it is
                         stopped: plexusd finds by /run/plexus/sandboxes.json the attachments
                         of sandboxes that the runtime has forgotten

Exit code 1: the runtime does not answer; with --write, too, so that the socket of a runtime that was
started again is found when this is.`,
  flags: {
    "runtime-socket": { type: "string", default: defaultSocket },
    write: { type: "string" },
  },
  argumentCount: 0,
  async run(args, output, stopping) {
    const file = stringFlag(args, "write");
    if (file !== "") return keepWriting(file, args, stopping);
    await print(args, output, stopping);
    return ExitCode.Done;
  },
};

async function print(
  args: CommandArguments,
  output: CliOutput,
  signal: AbortSignal,
): Promise<void> {
  const sandboxes = await listSandboxes(stringFlag(args, "runtime-socket"), { timeoutMs, signal });
  for (const { id, namespace, name } of sandboxes) output.out(`${id}  ${namespace}/${name}`);
}

async function keepWriting(
  file: string,
  args: CommandArguments,
  signal: AbortSignal,
): Promise<ExitCode> {
  const socket = stringFlag(args, "runtime-socket");
  while (!signal.aborted) {
    // Of the time before: whatever is made while the runtime answers is younger.
    const listedAt = new Date().toISOString();
    const sandboxes = await listSandboxes(socket, { timeoutMs, signal });
    await writeSandboxList(file, {
      listedAt,
      containerIds: new Set(sandboxes.map(({ id }) => id)),
    });
    await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
  }
  return ExitCode.Done;
}
