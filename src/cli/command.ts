import type { ParseArgsConfig } from "node:util";

/** The exit codes of plexusctl. */
export const ExitCode = {
  /** The command did what it is for. */
  Done: 0,
  /** It could not, or what it checks is not in order; stderr says why. */
  Failed: 1,
  /** The command line was not understood. */
  WrongUsage: 2,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** Where a command writes. */
export interface CliOutput {
  /** A line on stdout: what was asked for. */
  out(line: string): void;
  /** A line on stderr: what went wrong. */
  err(line: string): void;
}

/** A flag's value; a list where it may be given more than once. */
type FlagValue = string | boolean | readonly string[];

/** Flags and arguments as given; what is not given has the default that {@link Command.flags} says. */
export interface CommandArguments {
  readonly flags: Readonly<Record<string, FlagValue | undefined>>;
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
  /** The values that a flag may have, where not every one will do. */
  readonly choices?: Readonly<Record<string, readonly string[]>>;
  /** How many arguments it takes besides flags. */
  readonly argumentCount: number | "one or more";
  /** How long it may take to end when the process is asked to, in milliseconds. @default 1000 */
  readonly stopMs?: number;
  /**
   * `stopping` is aborted when the process is asked to end, which a command that goes on for ever does.
   * @throws Error, which is printed in one line and means {@link ExitCode.Failed}
   */
  run(args: CommandArguments, output: CliOutput, stopping: AbortSignal): Promise<ExitCode>;
}

/** A flag that has a string value or default. */
export function stringFlag(args: CommandArguments, name: string): string {
  const value = args.flags[name];
  return typeof value === "string" ? value : "";
}

/** The values of a flag that may be given more than once. */
export function listFlag(args: CommandArguments, name: string): readonly string[] {
  const value = args.flags[name];
  return typeof value === "object" ? value : [];
}
