import { askAdmin, podName, podPath } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags } from "#cli/flags.ts";
import { type Refreshed, refreshPage } from "#daemon/admin/refreshed.ts";

/** A DEL and an ADD, each with its time limit. */
const timeoutMs = 300_000;

export const refreshCommand = command({
  name: "refresh",
  positionals: "NAMESPACE/NAME INTERFACE",
  summary: "unplug and plug one network of a running pod, with its present definition",
  description: `Asks plexusd on the pod's node, which needs hotPlug (docs/user/hot-plug.md). The network is
interrupted. It keeps its addresses if its plugin has the capability "ips" and they are still valid;
otherwise it gets others. Only a network of the pod's annotation without default-route can be
refreshed.`,
  flags: { socket: commonFlags.socket },
  failsWhen: "the network was not refreshed",
  async run({ flags: { socket }, positionals }, output) {
    const [pod, ifName = ""] = positionals;
    const path = `${podPath(podName(pod))}/${refreshPage}/${encodeURIComponent(ifName)}`;
    const how = { method: "POST", timeoutMs } as const;
    const { operations, problem } = await askAdmin<Refreshed>(socket, path, how);
    for (const { op, network, ifName: name, message } of operations) {
      if (message !== undefined) output.err(message);
      else output.out(`${op === "add" ? "plugged" : "unplugged"} ${network} (${name})`);
    }
    if (problem !== undefined) output.err(problem);
    const isPlugged = operations.some((each) => each.op === "add" && each.message === undefined);
    if (isPlugged) return ExitCode.Done;
    if (operations.length === 0 && problem === undefined) {
      output.err(
        `nothing was changed: hotPlug is off for the pod, another operation on it runs, the node has no agent (plexus agent --attach), or ${ifName} is not a network of its annotation`,
      );
    }
    return ExitCode.Failed;
  },
});
