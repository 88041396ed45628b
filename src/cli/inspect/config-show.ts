import { adminFlags, askAdmin } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { columns, print } from "#cli/output-format.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";

export const configShowCommand = command({
  name: "config show",
  summary: "show the settings in effect on this node, and where each comes from",
  flags: adminFlags,
  failsWhen: "plexusd does not answer",
  async run({ flags }, output) {
    const { settings } = await askAdmin<NodeStatus>(flags.socket, "/node");
    const rows = settings.map(({ key, value, source }) => [key, JSON.stringify(value), source]);
    const text = () => columns([["KEY", "VALUE", "FROM"], ...rows]);
    print(output, flags.output, { value: settings, text });
    return ExitCode.Done;
  },
});
