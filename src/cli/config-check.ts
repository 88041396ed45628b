import { readFile } from "node:fs/promises";
import { parseConfig } from "#daemon/config/parse.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type Command, ExitCode } from "./command.ts";

/** `plexusctl config check FILE`. */
export const configCheckCommand: Command = {
  name: "config check",
  synopsis: "FILE",
  summary: "check a configuration file of plexusd",
  help: "Prints every problem as FILE:LINE: KEY: PROBLEM; docs/configuration.md lists the keys.",
  flags: {},
  argumentCount: 1,
  async run({ positionals: [path = ""] }, output) {
    try {
      parseConfig(await readFile(path, "utf8"), path);
    } catch (error) {
      output.err(errorMessage(error));
      return ExitCode.Failed;
    }
    output.out(`${path}: ok`);
    return ExitCode.Done;
  },
};
