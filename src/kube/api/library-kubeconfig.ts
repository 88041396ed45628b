import { type SpawnOptions, spawn } from "node:child_process";
import type { Agent } from "node:http";
import type { RequestOptions } from "node:https";
import { isDeepStrictEqual } from "node:util";
import { KubeConfig } from "@kubernetes/client-node";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type CredentialMaterial, readTimeoutMs } from "./credentials.ts";
import { type Kubeconfig, serverOf, tokenOf } from "./plain-kubeconfig.ts";

/** A kubeconfig as the Kubernetes client library reads it. It caches a credential plugin's answer. */
export class LibraryKubeconfig {
  readonly #kubeconfig: Kubeconfig;
  readonly #library = new KubeConfig();

  /** @throws Error when the library cannot use it */
  constructor(kubeconfig: Kubeconfig) {
    const { document, dir } = kubeconfig;
    this.#kubeconfig = kubeconfig;
    this.#library.loadFromString(JSON.stringify(document));
    this.#library.makePathsAbsolute(dir);
    limitPlugins(this.#library);
    // The library refuses http unless TLS need not be verified.
    if (serverOf(kubeconfig).protocol === "http:")
      this.#library.clusters = this.#library.clusters.map((each) => ({
        ...each,
        skipTLSVerify: true,
      }));
  }

  isOf({ document }: Kubeconfig): boolean {
    return isDeepStrictEqual(this.#kubeconfig.document, document);
  }

  /** Executes the credential plugin if need be. @throws Error when the library cannot use a file */
  async material(): Promise<CredentialMaterial> {
    const options: RequestOptions = {};
    await this.#library.applyToHTTPSOptions(options);
    const { ca, cert, key, servername, rejectUnauthorized } = options;
    const tls = omitUndefined({ ca, cert, key, servername, rejectUnauthorized });
    const token = tokenOf(this.#kubeconfig);
    const headers = {
      ...headersOf(options),
      // The library does not know `tokenFile`.
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    const isProxied = Boolean(this.#library.getCurrentCluster()?.proxyUrl);
    const newAgent = isProxied ? () => this.#proxyAgent(tls) : undefined;
    return omitUndefined({ server: serverOf(this.#kubeconfig), tls, headers, newAgent });
  }

  /** The library's agent for a proxy, with these certificates; otherwise it keeps the first ones. */
  async #proxyAgent(tls: CredentialMaterial["tls"]): Promise<Agent> {
    const cluster = this.#library.getCurrentCluster();
    if (cluster === null) throw new Error("the current context has no cluster");
    const config = new KubeConfig();
    const [certData, keyData] = [tls.cert, tls.key].map((pem) =>
      pem === undefined ? undefined : Buffer.from(pem as string | Uint8Array).toString("base64"),
    );
    config.loadFromClusterAndUser(cluster, omitUndefined({ name: "proxied", certData, keyData }));
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    return options.agent as Agent;
  }
}

/** The library gives basic authentication to node:http. */
function headersOf({ headers = {}, auth }: RequestOptions): Record<string, string> {
  const all = Object.entries(headers).map(([key, value]) => [key.toLowerCase(), String(value)]);
  if (typeof auth === "string") {
    all.push(["authorization", `Basic ${Buffer.from(auth).toString("base64")}`]);
  }
  return Object.fromEntries(all.map(([key, value = ""]) => [key, value.trim()]));
}

/** Ends credential plugins that hang: the library waits for them without a limit. */
function limitPlugins(library: object): void {
  const { authenticators = [] } = library as { authenticators?: { execFn?: unknown }[] };
  const execFn = (command: string, args: string[] | undefined, options: SpawnOptions) =>
    spawn(command, args ?? [], { ...options, timeout: readTimeoutMs, killSignal: "SIGKILL" });
  for (const each of authenticators) if (each.execFn !== undefined) each.execFn = execFn;
}
