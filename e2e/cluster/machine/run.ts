import { execa } from "execa";

/** How one program is run to its end. */
export interface RunOptions {
  /** What the program reads. Nothing, if absent. */
  readonly input?: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** @default the current directory */
  readonly cwd?: string;
  /** Kill the program after this time. @default no limit */
  readonly timeoutMs?: number;
}

/** What a program that ran to its end has left behind. */
export interface RunResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program and its arguments. */
export type Command = readonly [file: string, ...args: string[]];

/** Runs a program to its end and returns its standard output. Throws with its standard error if it fails. */
export async function run(command: Command, options: RunOptions = {}): Promise<string> {
  const result = await tryRun(command, options);
  if (result.exitCode !== 0) {
    const output = `${result.stdout}\n${result.stderr}`.trim();
    throw new Error(`cannot run ${command.join(" ")}: exit status ${result.exitCode}: ${output}`);
  }
  return result.stdout;
}

/** Runs a program to its end, whatever its exit status. One that a signal ends has the exit status -1. */
export async function tryRun(
  [file, ...args]: Command,
  options: RunOptions = {},
): Promise<RunResult> {
  const { exitCode, stdout, stderr, message, failed } = await execa(file, args, {
    reject: false,
    input: options.input ?? "",
    ...(options.env !== undefined && { env: { ...options.env } }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(options.timeoutMs !== undefined && { timeout: options.timeoutMs }),
  });
  const reason = failed && exitCode === undefined ? message : undefined;
  return { exitCode: exitCode ?? -1, stdout, stderr: reason ?? stderr };
}
