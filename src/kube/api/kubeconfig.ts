import { readFile } from "node:fs/promises";
import type { Agent } from "node:http";
import type { RequestOptions } from "node:https";
import { dirname } from "node:path";
import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type CredentialMaterial, type Credentials, RereadCredentials } from "./credentials.ts";
import { kubeconfigForLibrary } from "./kubeconfig-text.ts";

/**
 * Which credentials a kubeconfig may have: `any` that the client library knows (credential plugins,
 * OpenID Connect, proxies, basic authentication, impersonation), certificates and tokens from `files`,
 * or certificates and a token that is `inline`.
 */
type Accepted = "any" | "files" | "inline";

/**
 * Credentials of any kind from a kubeconfig; it and its files are read again when they change.
 * @throws Error naming the file and what is wrong with it
 */
export function kubeconfigCredentials(path: string): Promise<Credentials> {
  return rereadCredentials(path, "any");
}

/**
 * Credentials of a kubeconfig file that someone else than the node's administrator may have written:
 * certificates, or a token in the file. Nothing is executed, and no other file's content is sent to
 * the server that the file names.
 * @throws Error naming the file and what is wrong with it
 */
export function plainKubeconfigCredentials(path: string): Promise<Credentials> {
  return rereadCredentials(path, "inline");
}

/**
 * Reads what a kubeconfig file and the files that it names contain now.
 * @throws Error when one cannot be read, or the kubeconfig needs a program or a proxy
 */
export async function kubeconfigMaterial(
  path: string,
): Promise<{ readonly server: URL; readonly material: CredentialMaterial }> {
  const file = await KubeconfigFile.open(path, "files");
  return { server: file.server, material: await file.read({ refused: false }) };
}

async function rereadCredentials(path: string, accepted: Accepted): Promise<Credentials> {
  const file = await KubeconfigFile.open(path, accepted);
  const source = `kubeconfig ${path}`;
  return new RereadCredentials({ source, server: file.server, read: (state) => file.read(state) });
}

interface Loaded {
  readonly text: string;
  /** It caches the answer of a credential plugin. */
  readonly config: KubeConfig;
  /** Of the current context. */
  readonly cluster: Cluster;
}

class KubeconfigFile {
  readonly #path: string;
  readonly #accepted: Accepted;
  #loaded: Loaded;

  private constructor(path: string, accepted: Accepted, text: string) {
    this.#path = path;
    this.#accepted = accepted;
    this.#loaded = this.#load(text);
  }

  /** @throws Error naming the file and what is wrong with it */
  static open(path: string, accepted: Accepted): Promise<KubeconfigFile> {
    return named(
      path,
      async () => new KubeconfigFile(path, accepted, await readFile(path, "utf8")),
    );
  }

  get server(): URL {
    return new URL(this.#loaded.cluster.server);
  }

  read({ refused }: { readonly refused: boolean }): Promise<CredentialMaterial> {
    return named(this.#path, async () => {
      const text = await readFile(this.#path, "utf8");
      if (refused || text !== this.#loaded.text) this.#loaded = this.#load(text);
      const { config, cluster } = this.#loaded;
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      const { ca, cert, key, servername, rejectUnauthorized } = options;
      const tls = omitUndefined({ ca, cert, key, servername, rejectUnauthorized });
      const newAgent = cluster.proxyUrl ? () => proxyAgent(cluster, tls) : undefined;
      return omitUndefined({ tls, headers: headersOf(options), newAgent });
    });
  }

  #load(text: string): Loaded {
    const config = new KubeConfig();
    const dir = dirname(this.#path);
    config.loadFromString(kubeconfigForLibrary(text, dir));
    config.makePathsAbsolute(dir);
    const context = config.getCurrentContext();
    const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
    if (!context) throw new Error("current-context is missing");
    if (cluster === null || user === null) {
      throw new Error(`context ${context}, its cluster or its user is missing`);
    }
    if (!URL.canParse(cluster.server)) {
      throw new Error(`cluster ${cluster.name}: server is not a URL`);
    }
    if (!isAccepted(this.#accepted, cluster, user)) {
      const token = this.#accepted === "inline" ? "a token in the file" : "a token";
      throw new Error(`only a certificate or ${token} can be used here`);
    }
    return { text, config, cluster };
  }
}

function isAccepted(accepted: Accepted, { proxyUrl }: Cluster, user: User): boolean {
  if (accepted === "any") return true;
  const others = [proxyUrl, user.exec, user.username, user.impersonateUser];
  if (others.some((each) => each !== undefined && each !== null)) return false;
  const hasTokenFile = user.authProvider?.config?.tokenFile !== undefined;
  return !user.authProvider || (accepted === "files" && hasTokenFile);
}

async function named<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${errorMessage(error)}`, { cause: error });
  }
}

/** The library keeps a token file's line end and gives basic authentication to node:http. */
function headersOf({ headers = {}, auth }: RequestOptions): Record<string, string> {
  const all = Object.entries(headers).map(([key, value]) => [key.toLowerCase(), String(value)]);
  if (typeof auth === "string") {
    all.push(["authorization", `Basic ${Buffer.from(auth).toString("base64")}`]);
  }
  return Object.fromEntries(all.map(([key, value = ""]) => [key, value.trim()]));
}

/** The library's agent for a proxy, with these certificates; otherwise it keeps the first ones. */
async function proxyAgent(cluster: Cluster, tls: CredentialMaterial["tls"]): Promise<Agent> {
  const config = new KubeConfig();
  const [certData, keyData] = [tls.cert, tls.key].map((pem) =>
    pem === undefined ? undefined : Buffer.from(pem as string | Uint8Array).toString("base64"),
  );
  config.loadFromClusterAndUser(cluster, omitUndefined({ name: "proxied", certData, keyData }));
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  return options.agent as Agent;
}
