import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DemoError, type Workplace } from "./workplace.ts";

/** The flags of the demo's daemon. */
export function daemonFlags(at: Workplace): string[] {
  return [
    "--manifests",
    at.manifests,
    "--socket",
    at.socket,
    "--state-dir",
    at.state,
    "--http",
    "off",
  ];
}

/** Starts plexusd and waits until it serves. @throws DemoError with what it said last */
export async function startDaemon(at: Workplace): Promise<ChildProcess> {
  const logPath = join(at.dir, "plexusd.log");
  const log = openSync(logPath, "a");
  const daemon = spawn(process.execPath, [at.daemon, ...daemonFlags(at)], {
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  while (!readFileSync(logPath, "utf8").includes("plexusd serves")) {
    if (daemon.exitCode !== null) {
      const said = readFileSync(logPath, "utf8").trim().split("\n").at(-1);
      throw new DemoError(`plexusd did not start: ${said}`);
    }
    await sleep(5);
  }
  return daemon;
}

/** Ends the daemon as the kubelet would. */
export async function stopDaemon(daemon: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => daemon.once("exit", resolve));
  daemon.kill("SIGTERM");
  await ended;
}
