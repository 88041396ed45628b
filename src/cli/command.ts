import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import type { Flag } from "./flags.ts";

/** The exit codes of plexusctl. */
export const ExitCode = {
  Done: 0,
  /** The command failed, or what it checks is not in order; stderr says why. */
  Failed: 1,
  WrongUsage: 2,
  /** plexusd does not answer, so it is not known whether something is wrong. */
  Unknown: 3,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** Where a command writes, and reads. */
export interface CliStreams {
  out(line: string): void;
  err(line: string): void;
  /** What the process gets on stdin. @default nothing */
  readonly input?: AsyncIterable<Buffer>;
}

/** What a command gets on stdin, as text. */
export function readInput({ input = Readable.from([]) }: CliStreams): Promise<string> {
  return text(input);
}

/** The flags of a command by name, without dashes. */
export type Flags = Readonly<Record<string, Flag>>;

/** Flags and arguments as given. */
export interface CommandLine<F extends Flags = Flags> {
  readonly flags: { readonly [Name in keyof F]: F[Name] extends Flag<infer T> ? T : never };
  readonly positionals: readonly string[];
}

/** One command of plexusctl: everything that parsing, help and running it need. */
export interface Command<F extends Flags = Flags> {
  /** As typed: `config check`. */
  readonly name: string;
  /** The arguments besides flags, for the usage: `FILE`; several where it ends in `...`. */
  readonly positionals?: string;
  readonly summary: string;
  /** What the command does, where the summary and the flags do not say everything. */
  readonly description?: string;
  readonly flags: F;
  /** When the exit code is {@link ExitCode.Failed}. */
  readonly failsWhen?: string;
  /** How long it may take to end when the process is asked to, in milliseconds. @default 1000 */
  readonly stopMs?: number;
  /** `stopping` is aborted when the process is asked to end. @throws Error, printed in one line */
  run(line: CommandLine<F>, output: CliStreams, stopping: AbortSignal): Promise<ExitCode>;
}

/** Declares a command; `run` gets its flags with their types. */
export function command<F extends Flags>(declared: Command<F>): Command<F> {
  return declared;
}
