import type { ParseArgsConfig } from "node:util";

/** Where a command writes. */
export interface CliOutput {
  /** What was asked for. */
  out(line: string): void;
  /** What went wrong. */
  err(line: string): void;
}

/** Flags and arguments as given; what is not given has the default that {@link Command.flags} says. */
export interface CommandArguments {
  readonly flags: Readonly<Record<string, string | boolean | undefined>>;
  readonly positionals: readonly string[];
}

/** One command of plexusctl. */
export interface Command {
  /** As typed: `config check`. */
  readonly name: string;
  /** What follows the name, for the usage. */
  readonly synopsis: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Further lines of its own help, flags described. */
  readonly help: string;
  readonly flags: NonNullable<ParseArgsConfig["options"]>;
  /** How many arguments it takes. */
  readonly arity: number;
  /** Exit code: 0 done, 1 not. @throws Error, which is told in one line and means 1 */
  run(args: CommandArguments, output: CliOutput): Promise<number>;
}

/** A flag that has a string value or default. */
export function stringFlag(args: CommandArguments, name: string): string {
  const value = args.flags[name];
  return typeof value === "string" ? value : "";
}
