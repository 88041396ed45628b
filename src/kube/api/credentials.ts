import { hash } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { createSecureContext } from "node:tls";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { PlainKubeconfig } from "./plain-kubeconfig.ts";

/** How long the result of a reading is used. */
const maxAgeMs = 10_000;

interface RereadOptions {
  /** Where the credentials come from, for messages. */
  readonly source: string;
  /** As it is before the first reading, for messages. */
  readonly server: URL;
  /** Reads everything. @throws Error when it cannot be used */
  readonly read: () => PlainKubeconfig;
}

/**
 * Credentials whose files change: the kubelet replaces a service-account token before it expires,
 * tools renew client certificates, or name another server. A new token is used from the next request on. New TLS material
 * makes a new connection pool; the old one ends with its last request.
 */
export class RereadCredentials {
  readonly #options: RereadOptions;
  #server: URL;
  #pool: { readonly agent: HttpAgent; readonly fingerprint: string } | undefined;
  #token: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(options: RereadOptions) {
    this.#server = options.server;
    this.#options = options;
  }

  /** The present server, for messages. */
  get server(): URL {
    return this.#server;
  }

  /** Reads the files again if need be. @throws Error when they have never been usable */
  prepare(): { readonly server: URL; readonly agent: HttpAgent; readonly token?: string } {
    if (performance.now() - this.#readAt > maxAgeMs) this.#read();
    if (this.#pool === undefined) throw new Error("credentials have not been read");
    const { agent } = this.#pool;
    return { server: this.#server, agent, ...omitUndefined({ token: this.#token }) };
  }

  /** The server refused a request (401): everything is read again for the next one. */
  invalidate(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  /** The server did not respond in time: its idle connections are not reused. */
  dropIdleConnections(): void {
    const idle = Object.values(this.#pool?.agent.freeSockets ?? {}).flat();
    for (const socket of idle) socket?.destroy();
  }

  close(): void {
    this.#pool?.agent.destroy();
  }

  #read(): void {
    try {
      const found = this.#options.read();
      this.#renewPool(found);
      this.#token = found.token;
      this.#readAt = performance.now();
    } catch (error) {
      // The file may be half replaced: keep the last credentials.
      if (this.#pool === undefined) throw error;
    }
  }

  #renewPool({ server, tls }: PlainKubeconfig): void {
    const fingerprint = hash("sha256", JSON.stringify([server, tls]));
    if (this.#pool?.fingerprint === fingerprint) return;
    const agent = this.#newAgent(server, tls);
    this.dropIdleConnections();
    this.#pool = { agent, fingerprint };
    this.#server = server;
  }

  /** A bounded pool with TCP keep-alive, to notice dead peers. Parses certificates only once. */
  #newAgent({ protocol }: URL, { serverName, ...tls }: PlainKubeconfig["tls"]): HttpAgent {
    const pool = { keepAlive: true, keepAliveMsecs: 15_000, maxSockets: 32, maxFreeSockets: 4 };
    if (protocol === "http:") return new HttpAgent(pool);
    const named = omitUndefined({ servername: serverName });
    try {
      return new HttpsAgent({ ...pool, ...tls, ...named, secureContext: createSecureContext(tls) });
    } catch (cause) {
      const message = `${this.#options.source}: cannot use its certificates or its key`;
      throw new Error(`${message}: ${errorMessage(cause)}`, { cause });
    }
  }
}
