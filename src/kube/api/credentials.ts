import { createHash } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { type AgentOptions, Agent as HttpsAgent } from "node:https";

/** Where the API server is and how to be known there. */
export interface Credentials {
  /** Scheme, host, port and, behind a proxy, a path prefix. */
  readonly server: URL;
  /** The connection pool and headers for one request, from what the files say now. */
  prepare(): Promise<{ agent: HttpAgent; headers: Readonly<Record<string, string>> }>;
  /** The server refused a request (401): nothing read before now is to be used again. */
  invalidate(): void;
  close(): void;
}

/** TLS settings and headers as read at one moment. */
export interface CredentialMaterial {
  readonly tls: Pick<AgentOptions, "ca" | "cert" | "key" | "servername" | "rejectUnauthorized">;
  readonly headers: Readonly<Record<string, string>>;
}

/** Options of {@link RereadCredentials}. */
interface RereadOptions {
  readonly server: URL;
  /** Reads everything anew; called again when what was read is older than `maxAgeMs`. */
  readonly read: () => Promise<CredentialMaterial>;
  /** @default 10000 */
  readonly maxAgeMs?: number;
}

/**
 * Credentials whose files change under way: the kubelet replaces a service-account token before it
 * expires, tools renew client certificates. A changed token is in the next request's header; changed
 * TLS material makes a new connection pool, and the old one ends with its last request.
 */
export class RereadCredentials implements Credentials {
  readonly server: URL;
  readonly #options: Required<RereadOptions>;
  #pool: { agent: HttpAgent; fingerprint: string } | undefined;
  #headers: Readonly<Record<string, string>> = {};
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: RereadOptions) {
    this.server = options.server;
    this.#options = { maxAgeMs: 10_000, ...options };
  }

  /** @throws Error as of node:fs when a file cannot be read and none was read before. */
  async prepare(): Promise<{ agent: HttpAgent; headers: Readonly<Record<string, string>> }> {
    if (performance.now() - this.#readAt > this.#options.maxAgeMs) {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    if (this.#pool === undefined) throw new Error("credentials have not been read");
    return { agent: this.#pool.agent, headers: this.#headers };
  }

  invalidate(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#pool?.agent.destroy();
  }

  async #read(): Promise<void> {
    let material: CredentialMaterial;
    try {
      material = await this.#options.read();
    } catch (error) {
      // A file that is being replaced: what was read last is the best guess for now.
      if (this.#pool === undefined) throw error;
      return;
    }
    this.#readAt = performance.now();
    this.#headers = material.headers;
    const fingerprint = fingerprintOf(material.tls);
    if (this.#pool?.fingerprint === fingerprint) return;
    for (const idle of Object.values(this.#pool?.agent.freeSockets ?? {})) {
      for (const socket of idle ?? []) socket.destroy();
    }
    this.#pool = { agent: newAgent(this.server, material.tls), fingerprint };
  }
}

function fingerprintOf(tls: CredentialMaterial["tls"]): string {
  const hash = createHash("sha256");
  for (const [key, value] of Object.entries(tls)) hash.update(`${key}\0${String(value)}\0`);
  return hash.digest("hex");
}

/** A connection pool for one API server: bounded, with TCP keep-alive so that dead peers are noticed. */
function newAgent(server: URL, tls: CredentialMaterial["tls"]): HttpAgent {
  const pool = { keepAlive: true, keepAliveMsecs: 15_000, maxSockets: 32, maxFreeSockets: 4 };
  return server.protocol === "http:" ? new HttpAgent(pool) : new HttpsAgent({ ...pool, ...tls });
}
