import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { oneLine } from "#lib/one-line.ts";

/** Where programs are looked for, and where plugins find those that they execute, such as iptables. */
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** What a program that has ended printed and exited with. */
export interface ProgramOutcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a program is run. */
export interface RunOptions {
  /** What it reads on stdin. @default nothing */
  readonly input?: string;
  /** Its whole environment beside PATH. @default none */
  readonly env?: Readonly<Record<string, string>>;
  /** Resolve for any exit status. @default false */
  readonly mayFail?: boolean;
}

/** Runs a program to its end. @throws Error when it cannot be started, or fails and must not */
export async function runProgram(
  command: readonly string[],
  { input = "", env = {}, mayFail = false }: RunOptions = {},
): Promise<ProgramOutcome> {
  const [file = "", ...args] = command;
  const child = spawn(file, args, { cwd: "/", env: { PATH: systemPath, ...env } });
  // A program that ends without reading is judged by its exit status.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  const outcome = { exitCode: code ?? -1, stdout, stderr };
  if (outcome.exitCode === 0 || mayFail) return outcome;
  throw new Error(
    `${command.join(" ")}: exit status ${outcome.exitCode}: ${oneLine(stderr.trim())}`,
  );
}
