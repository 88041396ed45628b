import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { listSandboxes } from "#cri/list-sandboxes.ts";
import { sandboxListPath, writeSandboxList } from "#cri/sandbox-list-file.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";

const intervalMs = 30_000;
const timeoutMs = 10_000;

export const sandboxesCommand = command({
  name: "sandboxes",
  summary: "list the pod sandboxes of the container runtime for plexusd until it is stopped",
  description: `Asks the container runtime over CRI every ${intervalMs / 1000} s, and writes the container IDs to a file. plexusd
reads it to find attachments of sandboxes that no longer exist.`,
  flags: {
    "runtime-socket": textFlag(
      "PATH",
      "the CRI socket of the kubelet's container runtime",
      "/run/containerd/containerd.sock",
    ),
    write: textFlag("FILE", "the file", sandboxListPath(defaultPaths.socket)),
  },
  failsWhen: "the runtime does not answer, so that its restart finds a new socket",
  async run({ flags: { write, "runtime-socket": socket } }, _output, signal) {
    try {
      while (!signal.aborted) {
        // Taken before the request: a sandbox created while the runtime answers is younger.
        const listedAt = new Date().toISOString();
        const containerIds = await listSandboxes(socket, { timeoutMs, signal });
        await writeSandboxList(write, { listedAt, containerIds });
        await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
      }
    } finally {
      // Helm ends this after Plexus is uninstalled.
      await rm(write, { force: true });
    }
    return ExitCode.Done;
  },
});
