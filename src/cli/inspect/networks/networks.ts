import { adminFlags, askAdmin } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { switchFlag } from "#cli/flags.ts";
import { columns, print } from "#cli/output-format.ts";
import type { NodeCondition } from "#daemon/admin/node-status.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import { found } from "#lib/condition.ts";
import { networksPage } from "./page.ts";

/** kubectl plexus reads the table. */
export const networksCommand = command({
  name: "networks",
  summary: "list which networks pods of this node can be attached to, or why not",
  flags: { ...adminFlags, page: switchFlag("print the page that kubectl plexus fills in") },
  failsWhen: "plexusd does not know",
  async run({ flags }, output) {
    if (flags.page) {
      output.out(networksPage());
      return ExitCode.Done;
    }
    const networks = await askAdmin<NetworkOnNode[]>(flags.socket, "/networks");
    const rows = networks.map((each) => [
      each.network,
      each.usable ? "yes" : "no",
      detailsOf(each),
    ]);
    const text = (): string[] => columns([["NETWORK", "USABLE", "DETAILS"], ...rows]);
    print(output, flags.output, { value: networks, text });
    return ExitCode.Done;
  },
});

function detailsOf({ message, links = [], resource }: NetworkOnNode): string {
  if (message !== undefined) return message;
  const renamed = links.filter(({ name, link }) => link !== name);
  return [
    ...renamed.map(({ name, link }) => `link ${name} is an alternative name of ${link}`),
    ...(resource === undefined ? [] : [`the devices of ${resource} decide`]),
  ].join("; ");
}

/**
 * What `doctor` prints. A network that this node does not have may be there on others, which only
 * kubectl plexus asks.
 */
export function networkFindings(networks: readonly NetworkOnNode[]): NodeCondition[] {
  return networks.flatMap((each) => {
    const details = detailsOf(each);
    if (details === "") return [];
    return each.usable
      ? [{ check: `links of ${each.network}`, ...found("NetworkAvailable", details) }]
      : [{ check: `network ${each.network}`, ...found("NetworkUnavailable", details) }];
  });
}
