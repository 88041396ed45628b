import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type CredentialMaterial, type Credentials, RereadCredentials } from "./credentials.ts";

const clusterSchema = z.looseObject({
  server: z.url(),
  "certificate-authority": z.string().optional(),
  "certificate-authority-data": z.string().optional(),
  "insecure-skip-tls-verify": z.boolean().optional(),
  "tls-server-name": z.string().optional(),
  "proxy-url": z.string().optional(),
});

const userSchema = z.looseObject({
  "client-certificate": z.string().optional(),
  "client-certificate-data": z.string().optional(),
  "client-key": z.string().optional(),
  "client-key-data": z.string().optional(),
  token: z.string().optional(),
  tokenFile: z.string().optional(),
});

const kubeconfigSchema = z.looseObject({
  "current-context": z.string().min(1),
  clusters: z.array(z.object({ name: z.string(), cluster: clusterSchema })),
  users: z.array(z.looseObject({ name: z.string(), user: userSchema.nullish() })),
  contexts: z.array(
    z.object({
      name: z.string(),
      context: z.looseObject({ cluster: z.string(), user: z.string() }),
    }),
  ),
});

type Cluster = z.infer<typeof clusterSchema>;
type User = z.infer<typeof userSchema>;

/** The cluster and the user of the current context. */
interface Current {
  readonly cluster: Cluster;
  readonly user: User;
}

/** Keys of a user whose meaning is a program to run, an identity provider or an impersonation. */
const dynamicUserKeys = ["exec", "auth-provider", "username", "as"];

/**
 * Credentials from a kubeconfig file. Certificates and tokens, which is what a node's components
 * use, are read here; whatever needs more (credential plugins, OpenID Connect, proxies) is left to
 * the Kubernetes client library, whose code is loaded only then: it costs 25 MB and 100 ms.
 * @throws Error naming the file and what is wrong with it.
 */
export async function kubeconfigCredentials(path: string): Promise<Credentials> {
  const current = await readCurrent(path);
  if (needsLibrary(current)) {
    const { libraryCredentials } = await import("./library-credentials.ts");
    return libraryCredentials(path);
  }
  return rereadCredentials(path, current);
}

/**
 * Credentials from a kubeconfig file that somebody else than the node's administrator may have written:
 * certificates, and a token in the file itself. Nothing is executed for them, and no other file's content is
 * sent to the server that the file names.
 * @throws Error naming the file and what is wrong with it.
 */
export async function plainKubeconfigCredentials(path: string): Promise<Credentials> {
  return rereadCredentials(path, await readPlain(path), readPlain);
}

/**
 * What the files that a kubeconfig names say now.
 * @throws Error when one cannot be read, or the kubeconfig needs a program or a library to be used
 */
export async function kubeconfigMaterial(
  path: string,
): Promise<{ readonly server: URL; readonly material: CredentialMaterial }> {
  const current = await readCurrent(path);
  if (needsLibrary(current)) {
    throw new Error(`kubeconfig ${path}: its credentials are no certificate and no token`);
  }
  const material = await materialOf(current, dirname(path));
  return { server: new URL(current.cluster.server), material };
}

function rereadCredentials(
  path: string,
  { cluster }: Current,
  reread: (path: string) => Promise<Current> = readCurrent,
): Credentials {
  return new RereadCredentials({
    server: new URL(cluster.server),
    read: async () => materialOf(await reread(path), dirname(path)),
  });
}

async function readPlain(path: string): Promise<Current> {
  const current = await readCurrent(path);
  if (needsLibrary(current) || current.user.tokenFile !== undefined) {
    throw new Error(
      `kubeconfig ${path}: its credentials are no certificate and no token in the file`,
    );
  }
  return current;
}

function needsLibrary({ cluster, user }: Current): boolean {
  return (
    cluster["proxy-url"] !== undefined || dynamicUserKeys.some((key) => user[key] !== undefined)
  );
}

async function readCurrent(path: string): Promise<Current> {
  const parsed = kubeconfigSchema.safeParse(parse(await readFile(path, "utf8")));
  if (!parsed.success) throw new Error(`kubeconfig ${path}: ${z.prettifyError(parsed.error)}`);
  const config = parsed.data;
  const name = config["current-context"];
  const context = config.contexts.find((entry) => entry.name === name)?.context;
  const cluster = config.clusters.find((entry) => entry.name === context?.cluster)?.cluster;
  const user = config.users.find((entry) => entry.name === context?.user);
  if (cluster === undefined || user === undefined) {
    throw new Error(`kubeconfig ${path}: context ${name}, its cluster or its user is missing`);
  }
  return { cluster, user: user.user ?? {} };
}

async function materialOf(
  { cluster, user }: Current,
  baseDir: string,
): Promise<CredentialMaterial> {
  const bytes = async (file?: string, data?: string): Promise<Buffer | undefined> => {
    if (data !== undefined && data !== "") return Buffer.from(data, "base64");
    return file === undefined || file === "" ? undefined : readFile(resolve(baseDir, file));
  };
  const ca = await bytes(cluster["certificate-authority"], cluster["certificate-authority-data"]);
  const cert = await bytes(user["client-certificate"], user["client-certificate-data"]);
  const key = await bytes(user["client-key"], user["client-key-data"]);
  const token =
    user.tokenFile === undefined
      ? user.token
      : (await readFile(resolve(baseDir, user.tokenFile), "utf8")).trim();
  return {
    tls: omitUndefined({
      ca,
      cert,
      key,
      servername: cluster["tls-server-name"],
      rejectUnauthorized: cluster["insecure-skip-tls-verify"] === true ? false : undefined,
    }),
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
}
