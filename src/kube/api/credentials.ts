import { createHash } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { type AgentOptions, Agent as HttpsAgent } from "node:https";
import { createSecureContext } from "node:tls";
import { errorMessage } from "#lib/error-message.ts";

/** Where the API server is and how to be known there. */
export interface Credentials {
  /** Scheme, host, port and, behind a proxy, a path prefix. */
  readonly server: URL;
  /** The connection pool and headers for one request, from what the files say now. */
  prepare(): Promise<{ agent: HttpAgent; headers: Readonly<Record<string, string>> }>;
  /** The server refused a request (401): nothing read before now is to be used again. */
  invalidate(): void;
  /** The server did not answer in time: what else is open to it and idle is not to be used again. */
  dropIdleConnections(): void;
  close(): void;
}

/** TLS settings and headers as read at one moment. */
export interface CredentialMaterial {
  readonly tls: Pick<AgentOptions, "ca" | "cert" | "key" | "servername" | "rejectUnauthorized">;
  readonly headers: Readonly<Record<string, string>>;
  /** Makes the connection pool, where connections go another way than straight to the server. */
  readonly newAgent?: () => Promise<HttpAgent>;
}

/** Options of {@link RereadCredentials}. */
interface RereadOptions {
  /** Where they come from, for messages. */
  readonly source: string;
  readonly server: URL;
  /**
   * Reads everything anew; called again when what was read is older than `maxAgeMs`. After a refusal by the
   * server nothing that was kept from before is to be used.
   */
  readonly read: (state: { readonly refused: boolean }) => Promise<CredentialMaterial>;
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
  #refused = false;
  #reading: Promise<void> | undefined;

  constructor(options: RereadOptions) {
    this.server = options.server;
    this.#options = { maxAgeMs: 10_000, ...options };
  }

  /** @throws Error when the credentials cannot be read or used, and none were read before */
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
    this.#refused = true;
  }

  dropIdleConnections(): void {
    if (this.#pool !== undefined) destroyIdle(this.#pool.agent);
  }

  close(): void {
    this.#pool?.agent.destroy();
  }

  async #read(): Promise<void> {
    try {
      const material = await this.#options.read({ refused: this.#refused });
      await this.#renewPool(material);
      this.#headers = material.headers;
    } catch (error) {
      // A file that is being replaced: what was read last is the best guess for now.
      if (this.#pool === undefined) throw error;
      return;
    }
    this.#readAt = performance.now();
    this.#refused = false;
  }

  async #renewPool(material: CredentialMaterial): Promise<void> {
    const fingerprint = fingerprintOf(material.tls);
    if (this.#pool?.fingerprint === fingerprint) return;
    const agent = (await material.newAgent?.()) ?? this.#newAgent(material.tls);
    this.dropIdleConnections();
    this.#pool = { agent, fingerprint };
  }

  #newAgent(tls: CredentialMaterial["tls"]): HttpAgent {
    try {
      return newAgent(this.server, tls);
    } catch (cause) {
      const message = `${this.#options.source}: its certificates or its key cannot be used`;
      throw new Error(`${message}: ${errorMessage(cause)}`, { cause });
    }
  }
}

/** Ends the connections of a pool that no request is using. */
function destroyIdle(agent: HttpAgent): void {
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}

function fingerprintOf(tls: CredentialMaterial["tls"]): string {
  const hash = createHash("sha256");
  for (const [key, value] of Object.entries(tls)) hash.update(`${key}\0${String(value)}\0`);
  return hash.digest("hex");
}

/**
 * A connection pool for one API server: bounded, with TCP keep-alive so that dead peers are noticed. The
 * certificates are parsed once, not for each connection.
 * @throws Error when they cannot be
 */
function newAgent(server: URL, tls: CredentialMaterial["tls"]): HttpAgent {
  const pool = { keepAlive: true, keepAliveMsecs: 15_000, maxSockets: 32, maxFreeSockets: 4 };
  if (server.protocol === "http:") return new HttpAgent(pool);
  return new HttpsAgent({ ...pool, ...tls, secureContext: createSecureContext(tls) });
}
