import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

/** A CNI executable as the container runtime is to start it. */
export interface Command {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** A call that is being made. */
export interface RunningCall {
  readonly pid: number;
  /** `ok`, the CNI error that was printed, or what else there is to see of a failure. */
  readonly outcome: Promise<string>;
  hasEnded(): boolean;
}

/** Starts a call as a runtime does, with its limit in milliseconds. */
export function startCall(command: Command, limitMs: number): RunningCall {
  const child = spawn(command.program, { env: command.env, stdio: "pipe" });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(command.stdin);
  let exceededLimit = false;
  const timer = setTimeout(() => {
    exceededLimit = child.kill("SIGKILL");
  }, limitMs);
  const closed = once(child, "close");
  const outcome = once(child, "exit").then(async ([exitCode]): Promise<string> => {
    clearTimeout(timer);
    // A child that it leaves behind may keep its pipes open.
    await Promise.race([closed, sleep(50)]);
    child.stdout.destroy();
    child.stderr.destroy();
    if (exitCode === 0) return "ok";
    if (exitCode === null) return exceededLimit ? "no answer" : "killed";
    return problemOf(stdout.trim() || stderr.trim(), exitCode);
  });
  return {
    pid: child.pid ?? 0,
    outcome,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
  };
}

/** Characters of an error that are kept: a plugin that prints megabytes may be quoted in it. */
const messageMax = 2000;

function problemOf(printed: string, exitCode: number): string {
  try {
    const { code, msg } = JSON.parse(printed) as { code: number; msg: string };
    return `code ${code}: ${msg.slice(0, messageMax)}`;
  } catch {
    return `exit ${exitCode}: ${printed.slice(0, messageMax)}`;
  }
}
