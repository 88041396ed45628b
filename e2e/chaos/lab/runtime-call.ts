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
  /** Whether it was killed because it had not answered within the runtime's limit. */
  readonly exceededLimit: boolean;
}

/** A call that is being made. */
export interface RunningCall {
  readonly pid: number;
  readonly outcome: Promise<CallOutcome>;
  hasEnded(): boolean;
  /** The executable is stopped by a fault: the runtime kills it after that many milliseconds from now. */
  giveUpIn(milliseconds: number): void;
}

/** Starts a call as a runtime does, with its limit in milliseconds. */
export function startCall(command: Command, limitMs: number): RunningCall {
  const child = spawn(command.program, { env: command.env, stdio: "pipe" });
  let [stdout, stderr, ended, exceededLimit] = ["", "", false, false];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(command.stdin);
  let timer = setTimeout(() => {
    exceededLimit = true;
    child.kill("SIGKILL");
  }, limitMs);
  const exited = new Promise<number | undefined>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      ended = true;
      clearTimeout(timer);
      resolve(code ?? undefined);
    });
  });
  const closed = new Promise((resolve) => child.once("close", resolve));
  // A child that it leaves behind may keep its pipes open.
  const outcome = exited.then(async (exitCode) => {
    await Promise.race([closed, sleep(50)]);
    child.stdout.destroy();
    child.stderr.destroy();
    return { exitCode, stdout, stderr, exceededLimit };
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

/** Characters of an error that are kept: a plugin that prints megabytes may be quoted in it. */
const messageMax = 2000;

/** The message of the CNI error that was printed, or what else there is to see of it. */
export function problemOf({ exitCode, stdout, stderr, exceededLimit }: CallOutcome): string {
  if (exceededLimit) return "no answer";
  if (exitCode === undefined) return "killed";
  const text = stdout.trim() || stderr.trim();
  try {
    const { code, msg } = JSON.parse(text) as { code: number; msg: string };
    return `code ${code}: ${msg.slice(0, messageMax)}`;
  } catch {
    return `exit ${exitCode}: ${text.slice(0, messageMax)}`;
  }
}
