import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { Daemon } from "../../support/daemon.ts";
import { onlyChildOf } from "../../support/processes.ts";
import { type Command, type RunOptions, type RunResult, run, tryRun } from "./run.ts";

/** What a host is started with. */
export interface HostOptions {
  /** Its host name. */
  readonly name: string;
  /** The static program that becomes its first process: see init.c. */
  readonly init: string;
  /** The directory for the logs of what runs on it. */
  readonly logs: string;
  /** Shell commands that its first process runs in the new namespaces, with `args` as $1 and so on. */
  readonly setup: string;
  readonly args?: readonly string[];
  /** Whether it has this machine's network instead of one for itself. @default false */
  readonly sharesNetwork?: boolean;
}

/**
 * A machine made of namespaces: network, mount, PID, UTS and IPC. Nothing that runs on it can outlive its first
 * process, and that one ends at the latest when this process does.
 */
export class Host {
  readonly name: string;
  /** The first process, as seen from outside. */
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #logs: string;
  readonly #sharesNetwork: boolean;

  private constructor(child: ChildProcess, pid: number, options: HostOptions) {
    const { name, logs, sharesNetwork = false } = options;
    this.#sharesNetwork = sharesNetwork;
    this.name = name;
    this.pid = pid;
    this.#process = child;
    this.#ended = child.exitCode === null ? once(child, "exit") : Promise.resolve();
    this.#logs = logs;
  }

  /** Starts a host and waits until its setup is done. Throws if the setup fails. */
  static async start(options: HostOptions): Promise<Host> {
    await mkdir(options.logs, { recursive: true });
    const logPath = join(options.logs, `${options.name}.log`);
    const log = openSync(logPath, "a");
    const child = spawn("unshare", unshareArguments(options), { stdio: ["pipe", "pipe", log] });
    closeSync(log);
    const { pid, stdin, stdout } = child as ChildProcessByStdio<Writable, Readable, null>;
    const failed = once(child, "exit").then(() => undefined);
    const ready = await Promise.race([once(stdout, "data"), failed]);
    if (ready === undefined || pid === undefined) {
      throw new Error(`cannot set up host ${options.name}: see ${logPath}`);
    }
    child.unref();
    stdout.destroy();
    (stdin as Socket).unref();
    return new Host(child, await onlyChildOf(pid), options);
  }

  /** The command that runs a command on this host. */
  command(command: readonly string[]): Command {
    const namespaces = ["-m", "-p", "-u", "-i", ...(this.#sharesNetwork ? [] : ["-n"])];
    return ["nsenter", `--target=${this.pid}`, ...namespaces, "--wd", "--", ...command];
  }

  /** Runs a program on this host to its end and returns its standard output. Throws if it fails. */
  async run(command: Command, options: RunOptions = {}): Promise<string> {
    return run(this.command(killedWithParent(command)), options);
  }

  /** Runs a program on this host to its end, whatever its exit status. */
  async tryRun(command: Command, options: RunOptions = {}): Promise<RunResult> {
    return tryRun(this.command(killedWithParent(command)), options);
  }

  /** Starts a program that stays, with a log file of its name. */
  async startDaemon(name: string, command: Command): Promise<Daemon> {
    return Daemon.start({
      name,
      command: this.command(command),
      logFile: join(this.#logs, `${name}.log`),
      inPidNamespace: true,
    });
  }

  /** Kills everything on this host at once, as a power cut would. Its namespaces go with it. */
  async kill(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.ref();
      process.kill(this.pid, "SIGKILL");
      await this.#ended;
    }
  }
}

function unshareArguments(options: HostOptions): string[] {
  const { name, init, setup, args = [], sharesNetwork = false } = options;
  const own = ["--mount", "--pid", "--uts", "--ipc", ...(sharesNetwork ? [] : ["--net"])];
  const namespaces = [...own, "--fork", "--kill-child"];
  const script = [
    "mount -t proc proc /proc",
    'hostname "$0"',
    ...(sharesNetwork ? [] : ["ip link set lo up"]),
    setup,
    "cd /",
    "echo ready",
    `exec ${init} until-end-of-input >/dev/null`,
  ].join("\n");
  return [...namespaces, "--propagation=private", "sh", "-euc", script, name, ...args];
}

/** nsenter is killed alone when its time is up: what it has started goes with it. */
function killedWithParent(command: Command): Command {
  return ["setpriv", "--pdeathsig=KILL", "--", ...command];
}
