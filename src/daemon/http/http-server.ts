import { once } from "node:events";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { errorMessage } from "#lib/error-message.ts";

export interface HealthServer {
  readonly address: { readonly host: string; readonly port: number };
  close(): Promise<void>;
}

export interface Page {
  readonly status: number;
  readonly text: string;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** In milliseconds. By default, Node checks for slow requests only every 30 s. */
export const timeouts = {
  headersTimeout: 5000,
  requestTimeout: 5000,
  keepAliveTimeout: 2000,
  connectionsCheckingInterval: 1000,
};

/** Listens; without a host on every address. @throws Error naming `what` when it cannot */
export async function listen(
  server: Server | TlsServer,
  where: { readonly host?: string; readonly port: number; readonly what: string },
): Promise<HealthServer> {
  const { host, port, what } = where;
  try {
    await once(server.listen(port, host), "listening");
  } catch (cause) {
    // So that it emits "close".
    server.close();
    const message = `cannot serve ${what} on ${host ?? "*"}:${port}: ${errorMessage(cause)}`;
    throw new Error(message, { cause });
  }
  const bound = server.address() as AddressInfo;
  return {
    address: { host: bound.address, port: bound.port },
    close: () => {
      const closed = server[Symbol.asyncDispose]();
      server.closeAllConnections();
      return closed;
    },
  };
}

/** A server that plexusd can do without: a process that has its port must not keep pods from starting. */
export class OptionalServer {
  readonly #open: () => Promise<HealthServer>;
  readonly #onFailure: (reason: string) => void;
  #server: Promise<HealthServer> | undefined;
  #problem: string | undefined;
  #isClosed = false;

  constructor(open: () => Promise<HealthServer>, onFailure: (reason: string) => void) {
    this.#open = open;
    this.#onFailure = onFailure;
  }

  /** Call this regularly: opens the server if it is not open yet. @throws Error when it cannot listen */
  async ensureReachable(): Promise<void> {
    if (this.#isClosed) return;
    this.#server ??= this.#open();
    await this.#server.catch((error: unknown) => {
      this.#server = undefined;
      const problem = errorMessage(error);
      if (problem !== this.#problem) this.#onFailure(problem);
      this.#problem = problem;
      throw error;
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const server = await this.#server?.catch(() => undefined);
    await server?.close();
  }
}

/** Answers requests with pages, and errors with what `failed` makes of them. */
export function pages(
  pageOf: (request: IncomingMessage) => Promise<Page>,
  failed = (error: unknown): Page => ({ status: 500, text: `${String(error)}\n` }),
): RequestListener {
  return (request, response) => {
    pageOf(request)
      .catch(failed)
      .then((page) => send(response, page))
      .catch(() => response.destroy());
  };
}

function send(response: ServerResponse, page: Page): void {
  response.writeHead(page.status, {
    "content-type": page.contentType ?? "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(page.text),
    "x-content-type-options": "nosniff",
    ...page.headers,
  });
  response.end(page.text);
}
