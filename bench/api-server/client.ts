import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "#lib/json.ts";
import type { Collection, Counts, Order, Ready } from "./main.ts";

/** The process of the API server, as its parent sees it. */
export class ApiServer implements Disposable {
  readonly #kubeconfigs: Ready["kubeconfigs"];
  readonly #process: ChildProcess;
  readonly #answers = new Map<number, (answer: unknown) => void>();
  #orders = 0;

  private constructor(process: ChildProcess, { kubeconfigs }: Ready) {
    this.#kubeconfigs = kubeconfigs;
    this.#process = process;
    process.on("message", ({ id, answer }: { id: number; answer: unknown }) => {
      this.#answers.get(id)?.(answer);
      this.#answers.delete(id);
    });
  }

  /** Starts the server with its files in the directory; requests are counted by token. */
  static async start(dir: string, tokens: readonly string[]): Promise<ApiServer> {
    mkdirSync(dir, { recursive: true });
    const server = fork(join(import.meta.dirname, "main.ts"), [dir, ...tokens]);
    const [ready] = (await once(server, "message")) as [Ready];
    return new ApiServer(server, ready);
  }

  /** The path of the kubeconfig with that token. @throws Error when the server was not started with it */
  kubeconfig(token: string): string {
    const path = this.#kubeconfigs[token];
    if (path === undefined) throw new Error(`the API server has no token ${token}`);
    return path;
  }

  /** Writes what the kubelet puts into a container, and returns the variables that go with it. */
  serviceAccount(dir: string, token: string): Promise<Record<string, string>> {
    return this.#order({ kind: "serviceAccount", dir, token });
  }

  replace(collection: Collection, objects: JsonObject[]): Promise<null> {
    return this.#order({ kind: "replace", collection, objects });
  }

  /** How many requests were made so far with each token. */
  counts(): Promise<Counts> {
    return this.#order({ kind: "counts" });
  }

  pod(key: string): Promise<JsonObject | null> {
    return this.#order({ kind: "pod", key });
  }

  #order<T>(order: Order): Promise<T> {
    const id = ++this.#orders;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve as (answer: unknown) => void);
      this.#process.send({ id, order });
    });
  }

  [Symbol.dispose](): void {
    this.#process.kill("SIGKILL");
  }
}
