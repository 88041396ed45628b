import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { listSandboxes } from "#cri/list-sandboxes.ts";
import { writeSandboxList } from "#cri/sandbox-list-file.ts";

const intervalMs = 30_000;
const timeoutMs = 10_000;

export const sandboxesCommand = command({
  name: "sandboxes",
  summary: "list the pod sandboxes of the container runtime",
  description:
    "Asks the container runtime over CRI and prints container ID and pod of each sandbox.",
  flags: {
    "runtime-socket": textFlag(
      "PATH",
      "the CRI socket of the kubelet's container runtime",
      "/run/containerd/containerd.sock",
    ),
    write: textFlag(
      "FILE",
      `write the container IDs to FILE every ${intervalMs / 1000} s until it is stopped; plexusd reads them from /run/plexus/sandboxes.json to find attachments of sandboxes that no longer exist`,
    ),
  },
  failsWhen:
    "the runtime does not answer; --write ends, too, so that its restart finds a new socket",
  async run({ flags: { write, "runtime-socket": socket } }, output, signal) {
    if (write === "") {
      for (const { id, namespace, name } of await listSandboxes(socket, { timeoutMs, signal })) {
        output.out(`${id}  ${namespace}/${name}`);
      }
      return ExitCode.Done;
    }
    try {
      while (!signal.aborted) {
        // Taken before the request: a sandbox created while the runtime answers is younger.
        const listedAt = new Date().toISOString();
        const sandboxes = await listSandboxes(socket, { timeoutMs, signal });
        const containerIds = new Set(sandboxes.map(({ id }) => id));
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
