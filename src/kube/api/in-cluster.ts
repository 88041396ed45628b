import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { RereadCredentials } from "./credentials.ts";

/** How a pod finds its API server: variables that the kubelet sets in every container. */
export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` */
  readonly host: string;
  /** `KUBERNETES_SERVICE_PORT` */
  readonly port: string;
  /** @default /var/run/secrets/kubernetes.io/serviceaccount */
  readonly serviceAccountDir?: string;
  /** How long a token is used after it was read. @default 10000 */
  readonly maxAgeMs?: number;
}

/** The credentials of the pod's service account. This needs no client library, unlike a kubeconfig. */
export function inClusterCredentials(options: InClusterOptions): RereadCredentials {
  const { maxAgeMs } = options;
  const server = inClusterServer(options);
  return new RereadCredentials({
    source: "the service account",
    server,
    ...omitUndefined({ maxAgeMs }),
    async read() {
      const { ca, token } = await inClusterContent(options);
      return { server, tls: { ca }, headers: { authorization: `Bearer ${token}` } };
    },
  });
}

/** The API server's address. */
export function inClusterServer({ host, port }: InClusterOptions): URL {
  return new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
}

/** Reads the service account's certificate authority and token. @throws Error as of node:fs */
export async function inClusterContent({
  serviceAccountDir: dir = "/var/run/secrets/kubernetes.io/serviceaccount",
}: InClusterOptions): Promise<{ readonly ca: string; readonly token: string }> {
  const [ca, token] = await Promise.all([
    readFile(join(dir, "ca.crt"), "utf8"),
    readFile(join(dir, "token"), "utf8"),
  ]);
  return { ca, token: token.trim() };
}
