import { askAdmin, podPath } from "#cli/admin.ts";
import { type CliStreams, type CommandLine, command, ExitCode } from "#cli/command.ts";
import { commonFlags } from "#cli/flags.ts";
import { podName } from "#cli/pod-name.ts";
import { type Refreshed, refreshPage } from "#daemon/admin/refreshed.ts";

/** A DEL and an ADD, each with its time limit. */
const timeoutMs = 300_000;

const flags = { socket: commonFlags.socket } as const;

export const refreshCommand = command({
  name: "refresh",
  positionals: "NAMESPACE/NAME INTERFACE",
  summary: "unplug and plug one network of a running pod, with its present definition",
  description: `Asks plexusd on the pod's node, which needs hotPlug (docs/user/hot-plug.md). The network is
interrupted. It keeps its addresses if its plugin has the capability "ips" and they are still valid;
otherwise it gets others. Only a network of the pod's annotation can be refreshed.`,
  flags,
  failsWhen: "the network was not refreshed",
  run: refresh,
});

async function refresh(
  { flags: { socket }, positionals }: CommandLine<typeof flags>,
  output: CliStreams,
): Promise<ExitCode> {
  const pod = podName(positionals[0]);
  const ifName = positionals[1] ?? "";
  const path = `${podPath(pod)}/${refreshPage}/${encodeURIComponent(ifName)}`;
  const { operations, problem } = await askAdmin<Refreshed>(socket, path, {
    method: "POST",
    timeoutMs,
  });
  for (const { op, network, ifName: name, message } of operations) {
    if (message !== undefined) output.err(message);
    else output.out(`${op === "add" ? "plugged" : "unplugged"} ${network} (${name})`);
  }
  if (problem !== undefined) output.err(problem);
  const isPlugged = operations.some((each) => each.op === "add" && each.message === undefined);
  if (isPlugged) return ExitCode.Done;
  if (operations.length === 0 && problem === undefined) {
    output.err(
      `nothing was changed: hotPlug is off for the pod, another operation on it runs, or ${ifName} is not a network of its annotation`,
    );
  }
  return ExitCode.Failed;
}
