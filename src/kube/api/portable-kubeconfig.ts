import type { PlainKubeconfig } from "./plain-kubeconfig.ts";

/** A kubeconfig that names no files. */
export function portableKubeconfig({ server, tls, token }: PlainKubeconfig): string {
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
    token,
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

function base64(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text).toString("base64");
}
