import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import { RereadCredentials } from "./credentials.ts";
import type { PlainKubeconfig } from "./plain-kubeconfig.ts";

/** How a pod finds its API server: variables that the kubelet sets in every container. */
export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` */
  readonly host: string;
  /** `KUBERNETES_SERVICE_PORT` */
  readonly port: string;
  /** @default /var/run/secrets/kubernetes.io/serviceaccount */
  readonly serviceAccountDir?: string;
}

/** The credentials of the pod's service account. */
export function inClusterCredentials(options: InClusterOptions): RereadCredentials {
  return new RereadCredentials({
    source: "the service account",
    server: serverOf(options),
    read: () => inClusterContent(options),
  });
}

function serverOf({ host, port }: InClusterOptions): URL {
  return new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
}

/** Reads the service account, as a kubeconfig would have it. @throws Error as of node:fs */
export async function inClusterContent(
  options: InClusterOptions,
): Promise<PlainKubeconfig & { readonly token: string }> {
  const { serviceAccountDir: dir = "/var/run/secrets/kubernetes.io/serviceaccount" } = options;
  const [ca, token] = await Promise.all([
    readFile(join(dir, "ca.crt"), "utf8"),
    readFile(join(dir, "token"), "utf8"),
  ]);
  return { server: serverOf(options), tls: { ca, rejectUnauthorized: true }, token: token.trim() };
}
