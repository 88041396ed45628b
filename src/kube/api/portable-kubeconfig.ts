import type { CredentialMaterial } from "./credentials.ts";
import { type InClusterOptions, inClusterMaterial, inClusterServer } from "./in-cluster.ts";

/** The credentials to write down: those of a kubeconfig file, or of the pod's service account. */
export type CredentialSource =
  | { readonly kubeconfig: string }
  | { readonly inCluster: InClusterOptions };

/**
 * A kubeconfig with everything in it (certificates, the token as it is now), for a process that sees
 * none of the files that these come from.
 * @throws Error when a file cannot be read, or the credentials are such that they cannot be written down
 */
export async function portableKubeconfig(source: CredentialSource): Promise<string> {
  const { server, material } = await materialOf(source);
  const name = "plexus";
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: clusterOf(server, material) }],
    users: [{ name, user: userOf(material) }],
    contexts: [{ name, context: { cluster: name, user: name } }],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

async function materialOf(
  source: CredentialSource,
): Promise<{ readonly server: URL; readonly material: CredentialMaterial }> {
  if ("inCluster" in source) {
    const material = await inClusterMaterial(source.inCluster);
    return { server: inClusterServer(source.inCluster), material };
  }
  const { kubeconfigMaterial } = await import("./kubeconfig.ts");
  return kubeconfigMaterial(source.kubeconfig);
}

// JSON has no undefined: what the credentials lack is absent from both.

function clusterOf(server: URL, { tls }: CredentialMaterial): object {
  return {
    server: server.href,
    "certificate-authority-data": base64(tls.ca),
    "tls-server-name": tls.servername,
    "insecure-skip-tls-verify": tls.rejectUnauthorized === false ? true : undefined,
  };
}

function userOf({ tls, headers }: CredentialMaterial): object {
  return {
    "client-certificate-data": base64(tls.cert),
    "client-key-data": base64(tls.key),
    token: headers.authorization?.replace(/^Bearer /, ""),
  };
}

/** Certificates and keys are bytes here, whatever else node:tls would take. */
function base64(bytes: unknown): string | undefined {
  return bytes instanceof Uint8Array ? Buffer.from(bytes).toString("base64") : undefined;
}
