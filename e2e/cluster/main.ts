import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { releaseTool } from "../release/tools.ts";
import { repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { kubernetesDirectory } from "./kubernetes/build/kubernetes.ts";
import { type Cluster, startCluster } from "./kubernetes/cluster.ts";
import { nodeRuntime } from "./kubernetes/node.ts";
import { prepareTools } from "./kubernetes/tools.ts";
import { type Command, run } from "./machine/run.ts";

const usage = `usage: node e2e/cluster/main.ts COMMAND
  prepare                  builds and downloads the programs of the cluster, if they are not in the cache yet
  up [--nodes N] [FILE...] starts a cluster of one node or N, unless it is up, and loads the images in archives
  down                     stops the cluster and removes all that is left of it
`;

/** What the process that holds the cluster writes down for the other commands. */
interface State {
  readonly pid: number;
  readonly directory: string;
  /** Of each node, the command that imports images. */
  readonly imports: readonly Command[];
}

/** Of this checkout's cluster. */
const home = join(repositoryRoot, ".cluster");
const stateFile = join(home, "state.json");
/** For the PATH of a shell: kubectl, helm, on-node, and on-NODE for each node. */
const programs = join(home, "bin");

const howToUse = `The cluster is up. To use it in this shell:
  export PATH=${programs}:$PATH
It has kubectl, helm, which is built when first used, and on-node, which runs a command on the node.
To stop the cluster: make cluster DOWN=1
`;

async function up(args: readonly string[]): Promise<void> {
  const { values, positionals: archives } = parseArgs({
    args: [...args],
    options: { nodes: { type: "string" } },
    allowPositionals: true,
  });
  const { nodes = "1" } = values;
  if (!/^[1-9]$/.test(nodes)) throw new Error(`--nodes must be 1 to 9, not ${nodes}`);
  if (!(await isUp())) await start(nodes);
  const { imports } = await readState();
  if (values.nodes !== undefined && imports.length !== Number(nodes)) {
    const problem = `not ${nodes} nodes: the cluster that is up has ${imports.length}`;
    throw new Error(`${problem}; run \`make cluster DOWN=1\` first`);
  }
  for (const command of imports) {
    for (const archive of archives) await run([...command, resolve(archive)]);
  }
  process.stdout.write(howToUse);
}

/** Building programs takes longer than a cluster is waited for. */
async function prepare(): Promise<void> {
  await nodeRuntime(await prepareTools());
}

async function start(nodes: string): Promise<void> {
  await prepare();
  process.stderr.write("starting the cluster: a minute or two\n");
  await rm(home, { recursive: true, force: true });
  await mkdir(programs, { recursive: true });
  const logPath = join(home, "cluster.log");
  const log = openSync(logPath, "w");
  const holder = spawn(process.execPath, [import.meta.filename, "hold", nodes], {
    stdio: ["ignore", log, log],
    detached: true,
  });
  const ended = (): boolean => holder.exitCode !== null || holder.signalCode !== null;
  const holds = async (): Promise<boolean> =>
    existsSync(stateFile) && (await readState()).pid === holder.pid;
  try {
    // Each step of the start has its own limit.
    await waitUntil("the cluster is up", async () => ended() || (await holds()), {
      timeoutMs: 600_000,
    });
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
}

/** Starts the cluster and holds it until a SIGTERM: the cluster ends with this process. */
async function hold(nodes: number): Promise<void> {
  await using cluster = await startCluster({ nodes });
  await writePrograms(cluster);
  const state: State = {
    pid: process.pid,
    directory: cluster.directory,
    imports: cluster.nodes.map((node) => node.host.command(node.runtime.importCommand())),
  };
  // One checkout holds one cluster.
  await writeFile(stateFile, JSON.stringify(state), { flag: "wx" });
  const alive = setInterval(() => undefined, 60_000);
  await once(process, "SIGTERM");
  clearInterval(alive);
  await rm(stateFile);
}

/** kubectl and Helm enter the control plane's network namespace, as nothing else reaches the API server. */
async function writePrograms({ controlPlane, node, nodes }: Cluster): Promise<void> {
  const kubectl = join(await kubernetesDirectory(), "kubectl");
  const kubeconfig = `export KUBECONFIG='${controlPlane.kubeconfig}'`;
  const enter = `exec nsenter --target=${controlPlane.host.pid} -n`;
  const findHelm = `helm=$('${process.execPath}' '${import.meta.filename}' find-helm)`;
  const scripts = {
    kubectl: `${kubeconfig}; ${enter} '${kubectl}' "$@"`,
    helm: `${kubeconfig}; ${findHelm} && ${enter} "$helm" "$@"`,
    "on-node": `exec ${node.host.command([]).join(" ")} "$@"`,
    ...Object.fromEntries(
      nodes.map(({ name, host }) => [`on-${name}`, `exec ${host.command([]).join(" ")} "$@"`]),
    ),
  };
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(programs, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(programs, name), 0o755);
  }
}

async function down(): Promise<void> {
  if (!existsSync(stateFile)) return;
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

async function isUp(): Promise<boolean> {
  return existsSync(stateFile) && (await isHolder((await readState()).pid));
}

async function readState(): Promise<State> {
  return JSON.parse(await readFile(stateFile, "utf8")) as State;
}

async function main([command = "", ...args]: readonly string[]): Promise<void> {
  switch (command) {
    case "prepare":
      return prepare();
    case "up":
      return up(args);
    case "hold":
      return hold(Number(args[0]));
    case "down":
      return down();
    case "find-helm":
      process.stdout.write(await releaseTool("helm"));
      break;
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
