import { type ParseArgsConfig, parseArgs } from "node:util";
import { errorMessage } from "#lib/error-message.ts";
import type { Command, CommandLine, Flags } from "./command.ts";

type Parsed = { readonly line: CommandLine } | { readonly problem: string };

/** Parses the words after a command's name. */
export function parseCommandLine(command: Command, argv: readonly string[]): Parsed {
  try {
    const { values, positionals, tokens } = parseArgs({
      args: [...argv],
      tokens: true,
      options: parseArgsOptions(command.flags),
      strict: true,
      allowPositionals: command.positionals !== undefined,
    });
    const flags = values as CommandLine["flags"];
    // An unset variable of a script, such as `gc --forget "$ID"`, is not the default.
    for (const token of tokens) {
      if (token.kind === "option-terminator" || token.value !== "") continue;
      throw new Error(`${token.kind === "option" ? token.rawName : "an argument"} is empty`);
    }
    checkCount(command, positionals.length);
    checkChoices(command, flags);
    return { line: { flags, positionals } };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

function parseArgsOptions(flags: Flags): NonNullable<ParseArgsConfig["options"]> {
  const options = Object.entries(flags).map(([name, { fallback, short }]) => [
    name,
    {
      type: typeof fallback === "boolean" ? "boolean" : "string",
      default: fallback,
      ...(short === undefined ? {} : { short }),
    },
  ]);
  return Object.fromEntries(options);
}

function checkCount({ positionals = "" }: Command, count: number): void {
  if (positionals.endsWith("...") && count === 0) throw new Error("takes one or more arguments");
  if (positionals === "" || positionals.endsWith("...")) return;
  const wanted = positionals.split(" ").length;
  if (count !== wanted) throw new Error(`takes ${wanted} argument${wanted === 1 ? "" : "s"}`);
}

function checkChoices({ flags }: Command, given: CommandLine["flags"]): void {
  for (const [name, { choices }] of Object.entries(flags)) {
    const value = String(given[name]);
    if (choices === undefined || choices.includes(value)) continue;
    const list = `${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}`;
    throw new Error(`--${name} must be ${list}: ${JSON.stringify(value)}`);
  }
}
