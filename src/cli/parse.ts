import { type ParseArgsConfig, parseArgs } from "node:util";
import { errorMessage } from "#lib/error-message.ts";
import type { Command, CommandLine, Flags } from "./command.ts";

type Parsed = { readonly line: CommandLine } | { readonly problem: string };

/** Parses the words after a command's name. */
export function parseCommandLine(command: Command, argv: readonly string[]): Parsed {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: parseArgsOptions(command.flags),
      strict: true,
      allowPositionals: command.positionals !== undefined,
    });
    const flags = values as CommandLine["flags"];
    const problem = countProblem(command, positionals.length) ?? choiceProblem(command, flags);
    return problem === undefined ? { line: { flags, positionals } } : { problem };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

function parseArgsOptions(flags: Flags): NonNullable<ParseArgsConfig["options"]> {
  const options = Object.entries(flags).map(([name, { fallback, short }]) => [
    name,
    {
      type: typeof fallback === "boolean" ? "boolean" : "string",
      multiple: typeof fallback === "object",
      default: fallback,
      ...(short === undefined ? {} : { short }),
    },
  ]);
  return Object.fromEntries(options);
}

function countProblem({ positionals }: Command, count: number): string | undefined {
  if (positionals?.endsWith("...") === true) {
    return count > 0 ? undefined : "takes one or more arguments";
  }
  const wanted = positionals?.split(" ").length ?? count;
  return count === wanted ? undefined : `takes ${wanted} argument${wanted === 1 ? "" : "s"}`;
}

function choiceProblem({ flags }: Command, given: CommandLine["flags"]): string | undefined {
  for (const [name, { choices }] of Object.entries(flags)) {
    const value = String(given[name]);
    if (choices === undefined || choices.includes(value)) continue;
    const list = `${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}`;
    return `--${name} must be ${list}: ${JSON.stringify(value)}`;
  }
  return undefined;
}
