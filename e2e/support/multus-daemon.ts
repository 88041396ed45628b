import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon } from "./daemon.ts";

/** How Multus's daemon is started. */
export interface MultusDaemonOptions {
  /** What runs its executable; flags follow. */
  readonly command: readonly [file: string, ...args: string[]];
  /** A directory for its configuration, its log and the configuration that it writes for the node. */
  readonly dir: string;
  /** Where the configuration of the primary CNI is. */
  readonly primaryDir: string;
  /** Keys of its configuration beyond the directories. */
  readonly config: object;
  readonly nodeName: string;
  /** What it finds the API server with, and other variables. */
  readonly env: Readonly<Record<string, string>>;
}

/** Starts multus-daemon, and waits until it serves: until it has written the node's configuration. */
export async function startMultusDaemon(options: MultusDaemonOptions): Promise<Daemon> {
  const { command, dir, primaryDir, config, nodeName, env } = options;
  const confDir = join(dir, "net.d");
  rmSync(confDir, { recursive: true, force: true });
  mkdirSync(confDir, { recursive: true });
  const configPath = join(dir, "daemon.json");
  const directories = { cniConfigDir: confDir, multusAutoconfigDir: primaryDir };
  const fixed = { cniVersion: "1.0.0", multusConfigFile: "auto", logToStderr: true };
  writeFileSync(configPath, JSON.stringify({ ...fixed, ...directories, ...config }));
  const daemon = Daemon.start({
    name: "multus-daemon",
    command: [...command, "--config", configPath],
    logFile: join(dir, "multus-daemon.log"),
    env: { PATH: process.env.PATH ?? "", MULTUS_NODE_NAME: nodeName, ...env },
  });
  await daemon.waitUntil("multus-daemon has written its configuration", () =>
    existsSync(join(confDir, "00-multus.conf")),
  );
  return daemon;
}
