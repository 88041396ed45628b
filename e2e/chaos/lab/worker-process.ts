import { type ChildProcess, spawn } from "node:child_process";
import { nodeBinary } from "../../support/paths.ts";
import { namespaceFlags } from "./place.ts";
import type { WorkerMessage } from "./serve-tasks.ts";

/** What a worker executes: a program that calls `serveTasks`. */
export interface WorkerOptions {
  readonly program: string;
  readonly args: readonly string[];
  /** The longest that it may take to start, or for one task. */
  readonly limitMs: number;
}

/** A process in private namespaces that carries out tasks. */
export class WorkerProcess<Task extends object, Result> {
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #limitMs: number;

  private constructor(child: ChildProcess, limitMs: number) {
    this.#process = child;
    this.#limitMs = limitMs;
    this.#exited = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  /** Starts it and waits until it takes tasks. @throws Error when it does not come to that */
  static async start<Task extends object, Result>({
    program,
    args,
    limitMs,
  }: WorkerOptions): Promise<WorkerProcess<Task, Result>> {
    const child = spawn("unshare", [...namespaceFlags, nodeBinary(), program, ...args], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    const worker = new WorkerProcess<Task, Result>(child, limitMs);
    try {
      await worker.#next();
    } catch (error) {
      await worker.end();
      throw error;
    }
    return worker;
  }

  /** @throws Error when it fails, ends or takes too long */
  async run(task: Task): Promise<Result> {
    this.#process.send(task);
    const message = await this.#next();
    if (message.kind !== "result") throw new Error("the worker answered something else");
    return message.result;
  }

  async end(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#exited;
  }

  async #next(): Promise<WorkerMessage<Result>> {
    const child = this.#process;
    const answered = Promise.withResolvers<WorkerMessage<Result>>();
    const onExit = (): void => answered.reject(new Error("a worker ended"));
    const timer = setTimeout(() => answered.reject(new Error("a worker hangs")), this.#limitMs);
    child.once("message", (message) => answered.resolve(message as WorkerMessage<Result>));
    child.once("exit", onExit);
    try {
      const message = await answered.promise;
      if (message.kind === "failed") throw new Error(`a worker failed: ${message.problem}`);
      return message;
    } finally {
      clearTimeout(timer);
      child.off("exit", onExit);
    }
  }
}
