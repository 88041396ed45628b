import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { oneLine } from "#lib/one-line.ts";

/** Also for programs that plugins execute, such as iptables. */
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** How a program is run. */
export interface RunOptions {
  /** Its stdin. @default empty */
  readonly input?: string;
  /** Its environment besides PATH. @default empty */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether to resolve for any exit status. @default false */
  readonly mayFail?: boolean;
}

/** Runs a program; resolves to its exit status and output. @throws Error when it cannot be started, or fails without `mayFail` */
export async function runProgram(
  command: readonly string[],
  { input = "", env = {}, mayFail = false }: RunOptions = {},
) {
  const [file = "", ...args] = command;
  const child = spawn(file, args, { cwd: "/", env: { PATH: systemPath, ...env } });
  // A program may exit without reading its input; its exit status decides.
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
