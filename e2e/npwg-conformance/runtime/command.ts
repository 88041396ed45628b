import { spawn } from "node:child_process";

/** What a program did. */
export interface Outcome {
  /** -1 if the program was killed. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Options {
  readonly input?: string;
  /** The whole environment. @default this process's */
  readonly env?: Readonly<Record<string, string>>;
  /** The program is killed after this time. @default 30,000 */
  readonly timeoutMs?: number;
}

/** Runs a program to its end. @throws Error if it cannot be started */
export async function execute(command: readonly string[], options: Options = {}): Promise<Outcome> {
  const [file = "", ...args] = command;
  const { input = "", env = process.env, timeoutMs = 30_000 } = options;
  const child = spawn(file, args, { env, timeout: timeoutMs, killSignal: "SIGKILL" });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk));
  child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk));
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  return await new Promise((resolve, reject) => {
    child.on("error", (cause) => reject(new Error(`cannot run ${file}: ${cause.message}`)));
    child.on("close", (code) => resolve({ exitCode: code ?? -1, ...output }));
  });
}

/** Runs a program and returns its trimmed output. @throws Error with its stderr if it fails */
export async function run(command: readonly string[], options: Options = {}): Promise<string> {
  const { exitCode, stdout, stderr } = await execute(command, options);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: exit ${exitCode}: ${stderr.trim()}`);
  return stdout.trim();
}
