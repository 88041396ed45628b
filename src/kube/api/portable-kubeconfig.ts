import { type InClusterOptions, inClusterMaterial, inClusterServer } from "./in-cluster.ts";

/** Credentials to write down: those of a kubeconfig file, or of the pod's service account. */
export type CredentialSource =
  | { readonly kubeconfig: string }
  | { readonly inCluster: InClusterOptions };

/**
 * A kubeconfig that names no files. A given token replaces the source's.
 * @throws Error when a file or the credentials are unusable
 */
export async function portableKubeconfig(
  source: CredentialSource,
  given?: string,
): Promise<string> {
  const { server, material } = await materialOf(source);
  const { tls, headers } = material;
  const name = "plexus";
  // JSON has no undefined: what the credentials lack is absent.
  const cluster = {
    server: server.href,
    "certificate-authority-data": base64(tls.ca),
    "tls-server-name": tls.servername,
    "insecure-skip-tls-verify": tls.rejectUnauthorized === false ? true : undefined,
  };
  const user = {
    "client-certificate-data": base64(tls.cert),
    "client-key-data": base64(tls.key),
    token: given ?? headers.authorization?.replace(/^Bearer /, ""),
  };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

async function materialOf(source: CredentialSource) {
  if ("inCluster" in source) {
    const material = await inClusterMaterial(source.inCluster);
    return { server: inClusterServer(source.inCluster), material };
  }
  const { kubeconfigMaterial } = await import("./kubeconfig.ts");
  return kubeconfigMaterial(source.kubeconfig);
}

/** Certificates and keys are bytes here, whatever else node:tls accepts. */
function base64(bytes: unknown): string | undefined {
  return bytes instanceof Uint8Array ? Buffer.from(bytes).toString("base64") : undefined;
}
