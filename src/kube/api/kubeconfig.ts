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
 * Credentials from a kubeconfig file, as the Kubernetes client library finds them there: certificates,
 * tokens, credential plugins, OpenID Connect, proxies, basic authentication, impersonation. The file and
 * those that it names are read again as they change.
 * @throws Error naming the file and what is wrong with it
 */
export async function kubeconfigCredentials(path: string): Promise<Credentials> {
  return rereadCredentials(path, await KubeconfigFile.open(path));
}

/**
 * Credentials from a kubeconfig file that somebody else than the node's administrator may have written:
 * certificates, and a token in the file itself. Nothing is executed for them, and no other file's content is
 * sent to the server that the file names.
 * @throws Error naming the file and what is wrong with it
 */
export async function plainKubeconfigCredentials(path: string): Promise<Credentials> {
  return rereadCredentials(path, await KubeconfigFile.open(path, refuseAllButPlain));
}

/**
 * What the files that a kubeconfig names say now.
 * @throws Error when one cannot be read, or the kubeconfig needs a program or a proxy to be used
 */
export async function kubeconfigMaterial(
  path: string,
): Promise<{ readonly server: URL; readonly material: CredentialMaterial }> {
  const file = await KubeconfigFile.open(path, refuseUnportable);
  return { server: file.server, material: await file.read({ refused: false }) };
}

function rereadCredentials(path: string, file: KubeconfigFile): Credentials {
  const source = `kubeconfig ${path}`;
  return new RereadCredentials({ source, server: file.server, read: (state) => file.read(state) });
}

/** The cluster and the user of the current context. */
interface Current {
  readonly cluster: Cluster;
  readonly user: User;
}

/** Throws when credentials are of a kind that is not to be used. */
type Check = (current: Current) => void;

const refuseAllButPlain: Check = ({ cluster, user }) => {
  if (needsMore({ cluster, user }) || user.authProvider) {
    throw new Error("its credentials are no certificate and no token in the file");
  }
};

const refuseUnportable: Check = ({ cluster, user }) => {
  const hasTokenFile = user.authProvider?.config?.tokenFile !== undefined;
  if (needsMore({ cluster, user }) || (user.authProvider && !hasTokenFile)) {
    throw new Error("its credentials are no certificate and no token");
  }
};

/** Whether a program, a proxy, a password or another's identity is needed. */
function needsMore({ cluster, user }: Current): boolean {
  const more = [cluster.proxyUrl, user.exec, user.username, user.impersonateUser];
  return more.some((each) => each !== undefined && each !== null);
}

/** A kubeconfig file that is read again and again. */
class KubeconfigFile {
  readonly #path: string;
  readonly #check: Check;
  /** What the library made of the text; it keeps what a credential plugin has answered. */
  #loaded: { readonly text: string; readonly config: KubeConfig; readonly current: Current };

  private constructor(path: string, check: Check, text: string) {
    this.#path = path;
    this.#check = check;
    this.#loaded = this.#load(text);
  }

  /** @throws Error naming the file and what is wrong with it */
  static async open(path: string, check: Check = () => undefined): Promise<KubeconfigFile> {
    return named(path, async () => new KubeconfigFile(path, check, await readFile(path, "utf8")));
  }

  /** The API server's address when the file was opened. */
  get server(): URL {
    return new URL(this.#loaded.current.cluster.server);
  }

  /**
   * What the file, and those that it names, say now.
   * @throws Error naming the file and what is wrong with it
   */
  async read({ refused }: { readonly refused: boolean }): Promise<CredentialMaterial> {
    return named(this.#path, async () => {
      const text = await readFile(this.#path, "utf8");
      if (refused || text !== this.#loaded.text) this.#loaded = this.#load(text);
      const { config, current } = this.#loaded;
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      const tls = tlsOf(options);
      const { cluster } = current;
      const newAgent = cluster.proxyUrl ? () => proxyAgent(cluster, tls) : undefined;
      return omitUndefined({ tls, headers: headersOf(options), newAgent });
    });
  }

  #load(text: string): { text: string; config: KubeConfig; current: Current } {
    const config = new KubeConfig();
    const dir = dirname(this.#path);
    config.loadFromString(kubeconfigForLibrary(text, dir));
    config.makePathsAbsolute(dir);
    const current = currentOf(config);
    this.#check(current);
    return { text, config, current };
  }
}

/** @throws Error naming the file, for whatever the work throws */
async function named<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${errorMessage(error)}`, { cause: error });
  }
}

function currentOf(config: KubeConfig): Current {
  const context = config.getCurrentContext();
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
  if (!context) throw new Error("current-context is missing");
  if (cluster === null || user === null) {
    throw new Error(`context ${context}, its cluster or its user is missing`);
  }
  if (!URL.canParse(cluster.server)) {
    throw new Error(`the server of cluster ${cluster.name} is no URL`);
  }
  return { cluster, user };
}

function tlsOf(options: RequestOptions): CredentialMaterial["tls"] {
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  return omitUndefined({ ca, cert, key, servername, rejectUnauthorized });
}

/** The library leaves a token file's line end on, and gives basic authentication to node:http. */
function headersOf({ headers = {}, auth }: RequestOptions): Record<string, string> {
  const trimmed = Object.entries(headers).map(([key, value]) => [
    key.toLowerCase(),
    String(value).trim(),
  ]);
  const basic =
    typeof auth === "string"
      ? { authorization: `Basic ${Buffer.from(auth).toString("base64")}` }
      : {};
  return { ...Object.fromEntries(trimmed), ...basic };
}

/** The library's connections through a proxy, with these certificates: it keeps its first ones otherwise. */
async function proxyAgent(cluster: Cluster, tls: CredentialMaterial["tls"]): Promise<Agent> {
  const config = new KubeConfig();
  const [certData, keyData] = [tls.cert, tls.key].map(base64);
  config.loadFromClusterAndUser(cluster, omitUndefined({ name: "proxied", certData, keyData }));
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  return options.agent as Agent;
}

function base64(pem: unknown): string | undefined {
  if (pem === undefined) return undefined;
  return Buffer.from(pem as string | Uint8Array).toString("base64");
}
