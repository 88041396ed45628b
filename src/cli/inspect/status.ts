import { adminFlags, askAdmin } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { print } from "#cli/output-format.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";

export const statusCommand = command({
  name: "status",
  summary: "show the status of plexusd on this node",
  flags: adminFlags,
  failsWhen: "plexusd is not ready or does not answer",
  async run({ flags }, output) {
    const status = await askAdmin<NodeStatus>(flags.socket, "/node");
    print(output, flags.output, { value: status, text: () => linesOf(status) });
    return status.notReady.length === 0 ? ExitCode.Done : ExitCode.Failed;
  },
});

function linesOf(status: NodeStatus): string[] {
  const { conf, notReady, lostDefinitions } = status;
  return [
    `plexusd ${status.version} (${status.commit})`,
    `state: ${status.state}`,
    ...(conf === undefined ? [] : [`node configuration: ${conf.state}`]),
    ...(conf?.chained === undefined ? [] : [`plugins after Plexus: ${conf.chained.join(", ")}`]),
    `attachments: ${status.attachments}`,
    `leftovers: ${status.leftovers}`,
    `pods with other networks than requested: ${status.podProblems.length}`,
    ...(lostDefinitions.length === 0
      ? []
      : [`definitions deleted with their CRD: ${lostDefinitions.length}`]),
    `calls being served: ${status.callsInFlight}`,
    ...(notReady.length === 0 ? ["ready"] : notReady.map((reason) => `not ready: ${reason}`)),
  ];
}
