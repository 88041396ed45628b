import { adminFlags, askAdmin, PlexusdUnavailable } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { print } from "#cli/output-format.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { type BuildInfo, buildInfo } from "#lib/build-info.ts";

export const versionCommand = command({
  name: "version",
  summary: "show the versions of plexusctl and of plexusd on this node",
  flags: adminFlags,
  async run({ flags }, output) {
    const plexusctl = buildInfo();
    const plexusd = await versionOfPlexusd(flags.socket);
    const running = plexusd === undefined ? "does not answer" : textOf(plexusd);
    const text = () => [`plexusctl ${textOf(plexusctl)}`, `plexusd ${running}`];
    print(output, flags.output, { value: { plexusctl, plexusd }, text });
    return ExitCode.Done;
  },
});

async function versionOfPlexusd(socket: string): Promise<BuildInfo | undefined> {
  try {
    const { version, commit } = await askAdmin<NodeStatus>(socket, "/node");
    return { version, commit };
  } catch (error) {
    if (error instanceof PlexusdUnavailable) return undefined;
    throw error;
  }
}

function textOf({ version, commit }: BuildInfo): string {
  return `${version} (${commit})`;
}
