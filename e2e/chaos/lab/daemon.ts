import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { poll, signal } from "./processes.ts";

/** How a daemon is started, and what shows that it serves. */
export interface DaemonCommand {
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** A text in what it logs, or a file that it writes. */
  readonly ready: { readonly log: string } | { readonly file: string };
}

const startLimitMs = 20_000;

/** A daemon that faults kill, stop and bring back. */
export class Daemon {
  readonly #command: DaemonCommand;
  #child: ChildProcess | undefined;

  constructor(command: DaemonCommand) {
    this.#command = command;
  }

  /** undefined when it does not run. */
  get pid(): number | undefined {
    const child = this.#child;
    return child === undefined || child.exitCode !== null || child.signalCode !== null
      ? undefined
      : child.pid;
  }

  /** Starts it when it does not run, and waits until it serves. @throws Error with its log when it does not */
  async start(): Promise<void> {
    if (this.pid !== undefined) return;
    const { command, env, ready } = this.#command;
    const [program, ...args] = command;
    if ("file" in ready) rmSync(ready.file, { force: true });
    const child = spawn(program, args, { env: { ...env }, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let own = "";
    const read = (chunk: Buffer): void => {
      own = (own + chunk.toString()).slice(-20_000);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    const serves = (): boolean =>
      "file" in ready ? existsSync(ready.file) : own.includes(ready.log);
    const ended = (): boolean => this.pid === undefined;
    if (!(await poll(serves, { timeoutMs: startLimitMs, ended })))
      throw new Error(`${program} does not serve: ${own.slice(-2000)}`);
  }

  signal(name: NodeJS.Signals): void {
    if (this.pid !== undefined) signal(this.pid, name);
  }

  /** Kills it and waits for its end. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || this.pid === undefined) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  }
}
