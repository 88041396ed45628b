// SPDX-License-Identifier: Apache-2.0

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { childrenOf } from "./proc.ts";
import type { Command } from "./run.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

/** What a daemon is started with. */
export interface DaemonOptions {
  readonly name: string;
  /** An `nsenter` command: the daemon is nsenter's child. */
  readonly command: Command;
  /** The file that its output is appended to. */
  readonly log: string;
}

/** A program that runs on a host in the background. */
export class Daemon {
  readonly name: string;
  readonly log: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(child: ChildProcess, { name, log }: DaemonOptions) {
    this.name = name;
    this.log = log;
    this.#process = child;
    this.#ended = once(child, "exit");
    child.unref();
  }

  /** Starts the program. It leads a session of its own, so that a terminal's interrupt doesn't reach it. */
  static start(options: DaemonOptions): Daemon {
    const [file, ...args] = options.command;
    const log = openSync(options.log, "a");
    const child = spawn(file, args, { stdio: ["ignore", log, log], detached: true });
    closeSync(log);
    return new Daemon(child, options);
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** Waits until `probe` succeeds. Throws with the end of the log when the daemon ends or the time is up. */
  async waitUntil(probe: () => Promise<boolean>, options: WaitOptions): Promise<void> {
    try {
      const ready = await waitFor(async () => !this.running || (await probe()), options);
      if (ready && this.running) {
        return;
      }
    } catch (cause) {
      throw new Error(`${String(cause)}\n${await this.#lastLines()}`, { cause });
    }
    throw new Error(`${this.name} ended by itself\n${await this.#lastLines()}`);
  }

  /** Sends a signal and waits until the program has ended. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (!this.running || this.#process.pid === undefined) {
      return;
    }
    this.#process.ref();
    for (const pid of await childrenOf(this.#process.pid)) {
      process.kill(pid, signal);
    }
    await this.#ended;
  }

  async #lastLines(): Promise<string> {
    const lines = (await readFile(this.log, "utf8")).trimEnd().split("\n").slice(-20);
    return [`end of ${this.log}:`, ...lines].join("\n");
  }
}
