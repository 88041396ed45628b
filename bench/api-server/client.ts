import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import type { Counts, Order } from "./main.ts";
import type { Collection, JsonObject } from "./store.ts";

/** The process of the API server, as its parent sees it. */
export class ApiServer implements Disposable {
  readonly port: number;
  /** PEM file of the certificate, which is its own authority. */
  readonly certificate: string;
  readonly #dir: string;
  readonly #process: ChildProcess;
  readonly #answers = new Map<number, (answer: unknown) => void>();
  #orders = 0;

  private constructor(dir: string, { process, port }: { process: ChildProcess; port: number }) {
    this.#dir = dir;
    this.certificate = join(dir, "api.crt");
    this.#process = process;
    this.port = port;
    process.on("message", ({ id, answer }: { id: number; answer: unknown }) => {
      this.#answers.get(id)?.(answer);
      this.#answers.delete(id);
    });
  }

  /** Makes a certificate in the directory and starts the server on the loopback interface. */
  static async start(dir: string): Promise<ApiServer> {
    mkdirSync(dir, { recursive: true });
    const [certificate, key] = [join(dir, "api.crt"), join(dir, "api.key")];
    await execa("openssl", [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
      ...["-days", "2", "-subj", "/CN=plexus-bench", "-addext", "subjectAltName=IP:127.0.0.1"],
      ...["-keyout", key, "-out", certificate],
    ]);
    const server = fork(join(import.meta.dirname, "main.ts"), [certificate, key]);
    const [{ port }] = (await once(server, "message")) as [{ port: number }];
    return new ApiServer(dir, { process: server, port });
  }

  /** A kubeconfig whose token is that name; requests are counted by it. */
  kubeconfig(name: string): string {
    const path = join(this.#dir, `${name}.kubeconfig`);
    const cluster = {
      server: `https://127.0.0.1:${this.port}`,
      "certificate-authority": this.certificate,
    };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": name,
      clusters: [{ name, cluster }],
      users: [{ name, user: { token: name } }],
      contexts: [{ name, context: { cluster: name, user: name } }],
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  /** Writes what the kubelet puts into a container: a token and the authority. */
  serviceAccount(dir: string, name: string): void {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "token"), name);
    writeFileSync(join(dir, "ca.crt"), readFileSync(this.certificate));
  }

  replace(collection: Collection, objects: JsonObject[]): Promise<null> {
    return this.#order({ kind: "replace", collection, objects });
  }

  /** How many requests each contender has made so far. */
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
