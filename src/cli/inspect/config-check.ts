import { readFile } from "node:fs/promises";
import { type CliOutput, type Command, type CommandArguments, ExitCode } from "#cli/command.ts";
import { deployedView, unseenPaths } from "#daemon/config/host-paths.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { readHostView, wholeHost } from "#host/host-view.ts";
import { errorMessage } from "#lib/error-message.ts";

/** `plexusctl config check FILE`. */
export const configCheckCommand: Command = {
  name: "config check",
  synopsis: "FILE",
  summary: "check a configuration file of plexusd",
  help: `Prints every problem as FILE:LINE: KEY: PROBLEM; docs/user/configuration.md lists the keys.

A path that plexusd would not see in its container is a warning: in the image that is every place
that is not mounted, elsewhere every place that the manifests of deploy/ do not mount.`,
  flags: {},
  argumentCount: 1,
  run: check,
};

async function check(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const [path = ""] = args.positionals;
  try {
    const config = parseConfig(await readFile(path, "utf8"), path);
    const here = await readHostView();
    const view = here === wholeHost ? deployedView(config) : here;
    for (const each of unseenPaths(config, view)) output.err(`${path}: warning: ${each}`);
  } catch (error) {
    output.err(errorMessage(error));
    return ExitCode.Failed;
  }
  output.out(`${path}: ok`);
  return ExitCode.Done;
}
