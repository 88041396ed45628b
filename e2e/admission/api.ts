import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { apiServerUrl } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import type { Exchange, ExchangeAnswer } from "./api-worker.ts";

/** Who sends a request. Everyone has the permissions of an administrator: only admission can refuse something. */
export interface User {
  readonly name: string;
  /** The node that its token is bound to. */
  readonly node?: string;
}

/** A request to the API server. */
export interface ApiRequest {
  /** PATCH is a JSON merge patch. */
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: object;
  /** @default the administrator */
  readonly user?: User;
  /** Whether the API server only answers as if it did it. @default true */
  readonly isDryRun?: boolean;
}

/** The API server's answer. */
export interface ApiAnswer {
  readonly status: number;
  /** Of an error. */
  readonly message: string;
  readonly warnings: string;
  readonly milliseconds: number;
}

/** Sends requests to a cluster's API server from its network, over a few connections. */
export class Api {
  readonly #worker: ChildProcess;
  readonly #waiting = new Map<number, (answer: ExchangeAnswer) => void>();
  #sent = 0;

  private constructor(worker: ChildProcess) {
    this.#worker = worker;
    worker.on("message", (answer: ExchangeAnswer) => this.#waiting.get(answer.id)?.(answer));
  }

  static async open({ controlPlane, directory }: Cluster): Promise<Api> {
    const program = [join(import.meta.dirname, "api-worker.ts"), apiServerUrl, `${directory}/pki`];
    const command = [`--target=${controlPlane.host.pid}`, "-n", process.execPath, ...program];
    const worker = spawn("nsenter", command, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    await once(worker, "message");
    return new Api(worker);
  }

  async send({ method, path, body, user, isDryRun = true }: ApiRequest): Promise<ApiAnswer> {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const id = this.#sent++;
    const answered = new Promise<ExchangeAnswer>((resolve) => this.#waiting.set(id, resolve));
    const exchange: Exchange = {
      ...{ id, method, path: isDryRun ? `${path}?dryRun=All` : path },
      headers: { "content-type": type, ...(user && impersonation(user)) },
      body: body === undefined ? "" : JSON.stringify(body),
    };
    this.#worker.send(exchange);
    const answer = await answered;
    this.#waiting.delete(id);
    const { status, warnings, milliseconds } = answer;
    const message = status < 400 ? "" : messageOf(answer.body);
    return { status, message, warnings, milliseconds };
  }

  close(): void {
    this.#worker.disconnect();
  }
}

function messageOf(body: string): string {
  return (JSON.parse(body) as { readonly message?: string }).message ?? body;
}

function impersonation({ name, node }: User): Record<string, string> {
  const nodeKey = `impersonate-extra-${encodeURIComponent("authentication.kubernetes.io/node-name")}`;
  return {
    "impersonate-user": name,
    "impersonate-group": "system:masters",
    ...(node !== undefined && { [nodeKey]: node }),
  };
}
