// SPDX-License-Identifier: Apache-2.0

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { waitUntil } from "../support/wait.ts";
import { startCluster } from "./kubernetes/cluster.ts";
import { prepareTools } from "./kubernetes/tools.ts";
import { cacheRoot } from "./machine/cache.ts";
import type { Command } from "./machine/run.ts";

const usage = `usage: node e2e/cluster/main.ts COMMAND
  prepare        builds and downloads the programs of the cluster, if they are not in the cache yet
  up             starts a cluster of one node
  load FILE      makes the images in an archive known to the node
  kubectl ...    runs kubectl as the cluster's administrator
  shell          starts a shell in which kubectl, with its plugins, is the administrator's
  node ...       runs a command on the node, or a shell
  down           stops the cluster and removes all that is left of it
`;

/** What the process that holds the cluster writes down for the other commands. */
interface State {
  readonly pid: number;
  readonly directory: string;
  readonly kubectl: Command;
  readonly shell: Command;
  readonly node: Command;
  readonly import: Command;
}

const stateFile = join(cacheRoot(), "cluster.json");

async function up(): Promise<void> {
  if (existsSync(stateFile)) {
    throw new Error(`a cluster is up already, or has died: see ${stateFile}, or run "down"`);
  }
  await prepareTools();
  const logPath = join(cacheRoot(), "cluster.log");
  const log = openSync(logPath, "w");
  const holder = spawn(process.execPath, [import.meta.filename, "hold"], {
    stdio: ["ignore", log, log],
    detached: true,
  });
  const ended = (): boolean => holder.exitCode !== null || holder.signalCode !== null;
  const holds = async (): Promise<boolean> =>
    existsSync(stateFile) && (await readState()).pid === holder.pid;
  try {
    await waitUntil("the cluster is up", async () => ended() || (await holds()));
  } finally {
    if (!(await holds())) {
      holder.kill("SIGKILL");
      process.stderr.write(await readFile(logPath, "utf8"));
    }
  }
  if (ended()) {
    throw new Error("cannot start the cluster");
  }
  holder.unref();
  console.log("The cluster is up. Next: node e2e/cluster/main.ts kubectl get nodes");
}

/** Starts the cluster and holds it until a SIGTERM: the cluster ends with this process. */
async function hold(): Promise<void> {
  await using cluster = await startCluster();
  const state: State = {
    pid: process.pid,
    directory: cluster.directory,
    kubectl: cluster.kubectlCommand(),
    shell: cluster.administratorCommand("bash"),
    node: cluster.node.host.command([]),
    import: cluster.node.host.command(cluster.node.importCommand()),
  };
  // Only one cluster at a time is held for the command line.
  await writeFile(stateFile, JSON.stringify(state), { flag: "wx" });
  const alive = setInterval(() => undefined, 60_000);
  await once(process, "SIGTERM");
  clearInterval(alive);
  await rm(stateFile);
}

async function down(): Promise<void> {
  const { pid, directory } = await readState();
  if (!(await isHolder(pid))) {
    await rm(stateFile);
    return;
  }
  process.kill(pid, "SIGTERM");
  await waitUntil(
    "the cluster is gone",
    async () => !(existsSync(directory) || (await isHolder(pid))),
  );
}

/** Whether a process is still the one that holds a cluster, and not another with its number. */
async function isHolder(pid: number): Promise<boolean> {
  try {
    const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8");
    return commandLine.includes(`${import.meta.filename}\0hold`);
  } catch {
    return false;
  }
}

async function readState(): Promise<State> {
  if (!existsSync(stateFile)) {
    throw new Error('no cluster is up: run "up" first');
  }
  return JSON.parse(await readFile(stateFile, "utf8")) as State;
}

function passOn([file, ...prefix]: Command, args: readonly string[]): void {
  const { status } = spawnSync(file, [...prefix, ...args], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}

async function main([command = "", ...args]: readonly string[]): Promise<void> {
  await mkdir(cacheRoot(), { recursive: true });
  switch (command) {
    case "prepare":
      await prepareTools();
      break;
    case "up":
      return up();
    case "hold":
      return hold();
    case "down":
      return down();
    case "load":
      return passOn(
        (await readState()).import,
        args.map((file) => resolve(file)),
      );
    case "kubectl":
      return passOn((await readState()).kubectl, args);
    case "shell":
      return passOn((await readState()).shell, args);
    case "node":
      return passOn((await readState()).node, args.length > 0 ? args : ["sh"]);
    default:
      process.stderr.write(usage);
      process.exitCode = 2;
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
