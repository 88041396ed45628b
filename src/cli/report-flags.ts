import { defaultPaths } from "#lib/files/default-paths.ts";
import { type Command, type CommandArguments, stringFlag } from "./command.ts";

/** What the commands have in common that print what plexusd reports. */
export const reportFlags = {
  flags: {
    output: { type: "string", short: "o", default: "text" },
    socket: { type: "string", default: defaultPaths.socket },
  },
  choices: { output: ["text", "json"] },
} as const satisfies Pick<Command, "flags" | "choices">;

/** The lines of their help on these flags. */
export const reportFlagsHelp = `  -o, --output   text (default), or json
  --socket PATH  the socket of plexusd (default ${defaultPaths.socket})`;

/** Whether `-o json` was given. */
export function wantsJson(args: CommandArguments): boolean {
  return stringFlag(args, "output") === "json";
}
