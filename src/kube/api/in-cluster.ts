import { isIPv6 } from "node:net";
import { join } from "node:path";
import { readTextFile } from "#lib/files/read-file.ts";
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
  const read = () => inClusterContent(options);
  return new RereadCredentials({ source: "the service account", server: serverOf(options), read });
}

function serverOf({ host, port }: InClusterOptions): URL {
  return new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
}

/** Reads the service account, as a kubeconfig would have it. @throws as {@link readTextFile} */
export function inClusterContent(
  options: InClusterOptions,
): PlainKubeconfig & { readonly token: string } {
  const { serviceAccountDir: dir = "/var/run/secrets/kubernetes.io/serviceaccount" } = options;
  const ca = readTextFile(join(dir, "ca.crt"), "any");
  const token = readTextFile(join(dir, "token"), "any").trim();
  return { server: serverOf(options), tls: { ca, rejectUnauthorized: true }, token };
}
