import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import type { DaemonCommand } from "../implementation.ts";
import { waitUntil } from "./wait.ts";

/** How long a daemon may take to stop before it is killed. */
const stopMs = 5000;

/**
 * Starts an implementation's daemon and waits until it is ready.
 * @param logFile gets its output
 * @throws Error with the end of its output if it ends, or is not ready in time
 */
export async function startDaemon(
  { command, environment, ready }: DaemonCommand,
  logFile: string,
): Promise<AsyncDisposable> {
  const [file = "", ...args] = command;
  const log = openSync(logFile, "a");
  const env = { PATH: process.env.PATH ?? "", ...environment };
  const child = spawn(file, args, { stdio: ["ignore", log, log], env });
  closeSync(log);
  const ended = once(child, "exit").catch(() => undefined);
  const hasEnded = (): boolean =>
    child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  const isReady = (): boolean =>
    "file" in ready ? existsSync(ready.file) : readFileSync(logFile, "utf8").includes(ready.output);
  const stop = async (): Promise<void> => {
    if (hasEnded()) return;
    child.kill("SIGTERM");
    const kill = setTimeout(() => child.kill("SIGKILL"), stopMs);
    await ended;
    clearTimeout(kill);
  };
  try {
    await waitUntil(`${file} is ready`, () => hasEnded() || isReady());
    if (hasEnded()) throw new Error(`${file} ended`);
  } catch (cause) {
    await stop();
    const lines = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-10);
    throw new Error(`${(cause as Error).message}: ${lines.join("\n")}`);
  }
  return { [Symbol.asyncDispose]: stop };
}
