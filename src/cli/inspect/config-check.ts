import { readFile } from "node:fs/promises";
import { command, ExitCode, readInput } from "#cli/command.ts";
import { pathsToMount } from "#daemon/config/host-paths.ts";
import { parseFile } from "#daemon/config/parse.ts";
import { readHostView } from "#host/host-view.ts";
import { errorMessage } from "#lib/error-message.ts";

export const configCheckCommand = command({
  name: "config check",
  positionals: "FILE",
  summary: "check a configuration file of plexusd, or stdin (-)",
  description: `Prints every problem as FILE:LINE: KEY: PROBLEM; docs/user/configuration.md lists the keys.

Warns of former keys, and of paths that plexusd cannot see in its container. There, these are the
paths that are not mounted; elsewhere, also in another pod, the paths that the manifests in deploy/
do not mount.`,
  flags: {},
  failsWhen: "the file has a problem; warnings alone are 0",
  async run({ positionals: [name = ""] }, output) {
    const isStdin = name === "-";
    const path = isStdin ? "stdin" : name;
    try {
      const text = await (isStdin ? readInput(output) : readFile(path, "utf8"));
      const { config, warnings } = parseFile(text, { source: path });
      for (const each of warnings) output.err(`warning: ${each}`);
      for (const each of pathsToMount(config, await readHostView()))
        output.err(`${path}: warning: ${each}`);
    } catch (error) {
      output.err(errorMessage(error));
      return ExitCode.Failed;
    }
    output.out(`${path}: ok`);
    return ExitCode.Done;
  },
});
