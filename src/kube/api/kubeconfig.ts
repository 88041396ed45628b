import { omitUndefined } from "#lib/omit-undefined.ts";
import { type CredentialMaterial, RereadCredentials } from "./credentials.ts";
import type { LibraryKubeconfig } from "./library-kubeconfig.ts";
import {
  isPlain,
  kubeconfigError,
  type PlainKubeconfig,
  plainKubeconfig,
  readKubeconfig,
  serverOf,
} from "./plain-kubeconfig.ts";

/**
 * Credentials of any kind from a kubeconfig; it and its files are read again when they change. The
 * client library reads what is more than certificates and a token: credential plugins, OpenID
 * Connect, proxies, basic authentication, impersonation. It is loaded only then.
 * @throws Error naming the file and what is wrong with it
 */
export async function kubeconfigCredentials(path: string): Promise<RereadCredentials> {
  let library: LibraryKubeconfig | undefined;
  const read = async (isRefused: boolean): Promise<CredentialMaterial> => {
    const kubeconfig = readKubeconfig(path);
    if (isPlain(kubeconfig)) return plainMaterial(plainKubeconfig(kubeconfig));
    const { LibraryKubeconfig } = await import("./library-kubeconfig.ts");
    if (isRefused || !library?.isOf(kubeconfig)) library = new LibraryKubeconfig(kubeconfig);
    return library.material();
  };
  try {
    const kubeconfig = readKubeconfig(path);
    const server = serverOf(kubeconfig);
    // Not within the time limit of the first request.
    if (!isPlain(kubeconfig)) await import("./library-kubeconfig.ts");
    return new RereadCredentials({
      source: `kubeconfig ${path}`,
      server,
      read: ({ refused }) =>
        read(refused).catch((error) => {
          throw kubeconfigError(path, error);
        }),
    });
  } catch (error) {
    throw kubeconfigError(path, error);
  }
}

/** How node:https has the values of a kubeconfig. */
function plainMaterial({ server, tls, token }: PlainKubeconfig): CredentialMaterial {
  const { serverName: servername, ...same } = tls;
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return { server, tls: { ...same, ...omitUndefined({ servername }) }, headers };
}
