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
  readonly read: () => Promise<PlainKubeconfig>;
}

/**
 * Credentials whose files change: the kubelet replaces a service-account token before it expires,
 * tools renew client certificates, or name another server. A new token is used from the next request on. New TLS material
 * makes a new connection pool; the old one ends with its last request.
 */
export class RereadCredentials {
  readonly #options: RereadOptions;
  #server: URL;
  #pool: { agent: HttpAgent; fingerprint: string } | undefined;
  #token: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: RereadOptions) {
    this.#server = options.server;
    this.#options = options;
  }

  /** The present server, for messages. */
  get server(): URL {
    return this.#server;
  }

  /** Reads the files again if need be. @throws Error when they have never been usable */
  async prepare(): Promise<{ server: URL; agent: HttpAgent; token: string | undefined }> {
    if (performance.now() - this.#readAt > maxAgeMs) {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    if (this.#pool === undefined) throw new Error("credentials have not been read");
    return { server: this.#server, agent: this.#pool.agent, token: this.#token };
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

  async #read(): Promise<void> {
    try {
      const content = await this.#options.read();
      this.#renewPool(content);
      this.#token = content.token;
    } catch (error) {
      // The file may be half replaced: keep the last credentials.
      if (this.#pool === undefined) throw error;
      return;
    }
    this.#readAt = performance.now();
  }

  #renewPool({ server, tls }: PlainKubeconfig): void {
    const entries = Object.entries(tls).map(([key, value]) => `${key}\0${String(value)}\0`);
    const fingerprint = hash("sha256", `${server.href}\0${entries.join("")}`);
    if (this.#pool?.fingerprint === fingerprint) return;
    const agent = this.#newAgent(server, tls);
    this.dropIdleConnections();
    this.#pool = { agent, fingerprint };
    this.#server = server;
  }

  /** A bounded pool with TCP keep-alive, to notice dead peers. Parses certificates only once. */
  #newAgent({ protocol }: URL, { serverName, ...same }: PlainKubeconfig["tls"]): HttpAgent {
    const tls = { ...same, ...omitUndefined({ servername: serverName }) };
    const pool = { keepAlive: true, keepAliveMsecs: 15_000, maxSockets: 32, maxFreeSockets: 4 };
    if (protocol === "http:") return new HttpAgent(pool);
    try {
      return new HttpsAgent({ ...pool, ...tls, secureContext: createSecureContext(tls) });
    } catch (cause) {
      const message = `${this.#options.source}: cannot use its certificates or its key`;
      throw new Error(`${message}: ${errorMessage(cause)}`, { cause });
    }
  }
}
