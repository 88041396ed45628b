import { type InClusterOptions, inClusterContent, inClusterServer } from "./in-cluster.ts";
import type { PlainKubeconfig } from "./plain-kubeconfig.ts";

/** Credentials to write down: those of a kubeconfig file, or of the pod's service account. */
export type CredentialSource =
  | { readonly kubeconfig: string }
  | { readonly inCluster: InClusterOptions };

/** A kubeconfig that names no files, with another token if given. @throws Error */
export async function portableKubeconfig(
  source: CredentialSource,
  given?: string,
): Promise<string> {
  const { server, tls, token } = await contentOf(source);
  const name = "plexus";
  // JSON has no undefined: what the credentials lack is absent.
  const cluster = {
    server: server.href,
    "certificate-authority-data": base64(tls.ca),
    "tls-server-name": tls.serverName,
    "insecure-skip-tls-verify": tls.rejectUnauthorized ? undefined : true,
  };
  const user = {
    "client-certificate-data": base64(tls.cert),
    "client-key-data": base64(tls.key),
    token: given ?? token,
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

async function contentOf(source: CredentialSource): Promise<PlainKubeconfig> {
  if ("kubeconfig" in source) {
    const { readPlainKubeconfig } = await import("./plain-kubeconfig.ts");
    return readPlainKubeconfig(source.kubeconfig, { allowsTokenFile: true });
  }
  const { ca, token } = await inClusterContent(source.inCluster);
  return {
    server: inClusterServer(source.inCluster),
    tls: { ca, rejectUnauthorized: true },
    token,
  };
}

function base64(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text).toString("base64");
}
