import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { childrenOf, signal } from "./processes.ts";
import { type Probe, type WaitOptions, waitUntil } from "./wait.ts";

/** What a daemon is started with. */
export interface DaemonOptions {
  /** Names the daemon in errors. */
  readonly name: string;
  readonly command: readonly [file: string, ...args: string[]];
  /** The file that its output is appended to. */
  readonly logFile: string;
  /**
   * The command is an nsenter into a PID namespace: it forks, so signals are for its child. The daemon ends with
   * that namespace at the latest, so it leads another session, which a terminal's interrupt does not reach.
   * @default false
   */
  readonly inPidNamespace?: boolean;
  /** Its whole environment. @default this process's */
  readonly env?: Readonly<Record<string, string>>;
}

/** A program that runs in the background. */
export class Daemon {
  readonly name: string;
  readonly logFile: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #inPidNamespace: boolean;
  /** Bytes that the log file had before. */
  readonly #logStart: number;

  private constructor(child: ChildProcess, options: DaemonOptions & { logStart: number }) {
    this.name = options.name;
    this.logFile = options.logFile;
    this.#process = child;
    this.#ended = once(child, "exit");
    this.#inPidNamespace = options.inPidNamespace ?? false;
    this.#logStart = options.logStart;
    child.unref();
  }

  /** Starts the program, which need not be ready yet: see {@link waitUntil}. */
  static start(options: DaemonOptions): Daemon {
    const [file, ...args] = options.command;
    const log = openSync(options.logFile, "a");
    const logStart = statSync(options.logFile).size;
    const child = spawn(file, args, {
      stdio: ["ignore", log, log],
      detached: options.inPidNamespace ?? false,
      ...(options.env === undefined ? {} : { env: { ...options.env } }),
    });
    closeSync(log);
    return new Daemon(child, { ...options, logStart });
  }

  /** The process that was started. @throws Error when there is none, as the program was not found */
  get pid(): number {
    if (this.#process.pid === undefined) throw new Error(`cannot start ${this.name}`);
    return this.#process.pid;
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** What the log file has got since the start: this daemon's own output, if it has the file for itself. */
  get log(): string {
    return readFileSync(this.logFile).subarray(this.#logStart).toString();
  }

  /** Waits until `probe` succeeds. @throws Error with the end of the log when the daemon ends or the time is up */
  async waitUntil(state: string, probe: Probe<boolean>, options: WaitOptions = {}): Promise<void> {
    await this.#expect(state, async () => !this.running || (await probe()), options);
    if (!this.running) throw new Error(`${this.name} ended unexpectedly\n${this.#lastLines()}`);
  }

  /**
   * Sends a signal and waits until the program has ended. Does nothing when it has ended already.
   * @throws Error with the end of the log when it does not end
   */
  async stop(name: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (!this.running) return;
    this.#process.ref();
    const pids = this.#inPidNamespace ? await childrenOf(this.pid) : [this.pid];
    for (const pid of pids) process.kill(pid, name);
    await this.#expect(`${this.name} has ended after ${name}`, () => !this.running);
    await this.#ended;
  }

  async #expect(state: string, probe: Probe<boolean>, options: WaitOptions = {}): Promise<void> {
    try {
      await waitUntil(state, probe, options);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`${message}\n${this.#lastLines()}`, { cause });
    }
  }

  #lastLines(): string {
    const lines = this.log.trimEnd().split("\n").slice(-20);
    return [`end of ${this.logFile}:`, ...lines].join("\n");
  }
}

/** A daemon that faults kill, stop and start again. */
export class RestartableDaemon {
  readonly #start: () => Promise<Daemon>;
  #current: Daemon | undefined;

  /** @param start starts the daemon and waits until it serves */
  constructor(start: () => Promise<Daemon>) {
    this.#start = start;
  }

  /** undefined while it does not run. */
  get pid(): number | undefined {
    return this.#current?.running === true ? this.#current.pid : undefined;
  }

  /** Starts it unless it runs. @throws Error with its log when it does not serve */
  async start(): Promise<void> {
    if (this.pid === undefined) this.#current = await this.#start();
  }

  signal(name: NodeJS.Signals): void {
    signal(this.pid ?? 0, name);
  }

  /** Kills it and waits until it has ended. */
  async kill(): Promise<void> {
    await this.#current?.stop("SIGKILL");
  }
}
