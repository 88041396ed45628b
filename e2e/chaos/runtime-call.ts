import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** A CNI executable as the container runtime is to start it. */
export interface Command {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** How a call ended. */
export interface CallOutcome {
  /** undefined when it was killed. */
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** A call that is being made. */
export interface RunningCall {
  readonly pid: number;
  readonly outcome: Promise<CallOutcome>;
  hasEnded(): boolean;
  /** The runtime gives up and kills the executable after that many milliseconds from now. */
  giveUpIn(milliseconds: number): void;
}

/** Starts a call as a runtime does, with its limit in milliseconds. */
export function startCall(command: Command, limitMs: number): RunningCall {
  const child = spawn(command.program, { env: command.env, stdio: "pipe" });
  let [stdout, stderr, ended] = ["", "", false];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(command.stdin);
  let timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
  const exited = new Promise<number | undefined>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      ended = true;
      clearTimeout(timer);
      resolve(code ?? undefined);
    });
  });
  const closed = new Promise((resolve) => child.once("close", resolve));
  // A child that it leaves behind may hold its pipes for ever.
  const outcome = exited.then(async (exitCode) => {
    await Promise.race([closed, sleep(50)]);
    child.stdout.destroy();
    child.stderr.destroy();
    return { exitCode, stdout, stderr };
  });
  return {
    pid: child.pid ?? 0,
    outcome,
    hasEnded: () => ended,
    giveUpIn(milliseconds) {
      clearTimeout(timer);
      timer = setTimeout(() => child.kill("SIGKILL"), milliseconds);
    },
  };
}

/** The message of the CNI error that was printed, or what else there is to see of it. */
export function problemOf({ exitCode, stdout, stderr }: CallOutcome): string {
  if (exitCode === undefined) return "killed";
  const text = stdout.trim() || stderr.trim();
  try {
    const { code, msg } = JSON.parse(text) as { code: number; msg: string };
    return `code ${code}: ${msg}`;
  } catch {
    return `exit ${exitCode}: ${text.slice(0, 300)}`;
  }
}
