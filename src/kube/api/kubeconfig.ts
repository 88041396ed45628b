import { readFile } from "node:fs/promises";
import type { Agent } from "node:http";
import type { RequestOptions } from "node:https";
import { dirname } from "node:path";
import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type CredentialMaterial, RereadCredentials, type RereadOptions } from "./credentials.ts";
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
export async function kubeconfigCredentials(path: string): Promise<RereadCredentials> {
  return new RereadCredentials(await openKubeconfig(path, "any"));
}

/**
 * Credentials of a kubeconfig file that someone else than the node's administrator may have written:
 * certificates, or a token in the file. Nothing is executed, and no other file's content is sent to
 * the server that the file names.
 * @throws Error naming the file and what is wrong with it
 */
export async function plainKubeconfigCredentials(path: string): Promise<RereadCredentials> {
  return new RereadCredentials(await openKubeconfig(path, "inline"));
}

/**
 * Reads what a kubeconfig file and the files that it names contain now.
 * @throws Error when one cannot be read, or the kubeconfig needs a program or a proxy
 */
export async function kubeconfigMaterial(
  path: string,
): Promise<{ readonly server: URL; readonly material: CredentialMaterial }> {
  const { server, read } = await openKubeconfig(path, "files");
  return { server, material: await read({ refused: false }) };
}

function openKubeconfig(path: string, accepted: Accepted): Promise<RereadOptions> {
  const load = async (): Promise<Loaded> => {
    const text = await readFile(path, "utf8");
    return text === loaded?.text ? loaded : parse(text, { dir: dirname(path), accepted });
  };
  let loaded: Loaded | undefined;
  return named(path, async () => {
    loaded = await load();
    const server = new URL(loaded.cluster.server);
    const read: RereadOptions["read"] = ({ refused }) =>
      named(path, async () => {
        if (refused) loaded = undefined;
        loaded = await load();
        return materialOf(loaded);
      });
    return { source: `kubeconfig ${path}`, server, read };
  });
}

interface Loaded {
  readonly text: string;
  /** It caches the answer of a credential plugin. */
  readonly config: KubeConfig;
  /** Of the current context. */
  readonly cluster: Cluster;
}

function parse(text: string, { dir, accepted }: { dir: string; accepted: Accepted }): Loaded {
  const config = new KubeConfig();
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
  if (!isAccepted(accepted, cluster, user)) {
    const token = accepted === "inline" ? "a token in the file" : "a token";
    throw new Error(`only a certificate or ${token} can be used here`);
  }
  return { text, config, cluster };
}

async function materialOf({ config, cluster }: Loaded): Promise<CredentialMaterial> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  const tls = omitUndefined({ ca, cert, key, servername, rejectUnauthorized });
  const newAgent = cluster.proxyUrl ? () => proxyAgent(cluster, tls) : undefined;
  return omitUndefined({ tls, headers: headersOf(options), newAgent });
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
