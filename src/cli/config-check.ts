import { readFile } from "node:fs/promises";
import { parseConfig } from "#daemon/config/parse.ts";
import type { Command } from "./command.ts";

/** `plexusctl config check FILE`. */
export const configCheckCommand: Command = {
  name: "config check",
  synopsis: "FILE",
  summary: "check a configuration file of plexusd",
  help: "Prints every problem as FILE:LINE: KEY: PROBLEM; docs/configuration.md lists the keys.",
  flags: {},
  arity: 1,
  async run({ positionals: [path = ""] }, output) {
    try {
      parseConfig(await readFile(path, "utf8"), path);
    } catch (error) {
      output.err(error instanceof Error ? error.message : String(error));
      return 1;
    }
    output.out(`${path}: ok`);
    return 0;
  },
};
