import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type Credentials, RereadCredentials } from "./credentials.ts";

/** Where a pod finds its API server: the variables that the kubelet sets in every container. */
export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` */
  readonly host: string;
  /** `KUBERNETES_SERVICE_PORT` */
  readonly port: string;
  /** @default /var/run/secrets/kubernetes.io/serviceaccount */
  readonly serviceAccountDir?: string;
  /** How long what was read of the token is used. @default 10000 */
  readonly maxAgeMs?: number;
}

/** The pod's own service account; its token is read again as it rotates. */
export function inClusterCredentials(options: InClusterOptions): Credentials {
  const dir = options.serviceAccountDir ?? "/var/run/secrets/kubernetes.io/serviceaccount";
  const host = isIPv6(options.host) ? `[${options.host}]` : options.host;
  const { maxAgeMs } = options;
  return new RereadCredentials({
    server: new URL(`https://${host}:${options.port}`),
    ...omitUndefined({ maxAgeMs }),
    read: async () => {
      const [ca, token] = await Promise.all([
        readFile(join(dir, "ca.crt")),
        readFile(join(dir, "token"), "utf8"),
      ]);
      return { tls: { ca }, headers: { authorization: `Bearer ${token.trim()}` } };
    },
  });
}
