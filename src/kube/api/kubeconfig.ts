import { RereadCredentials } from "./credentials.ts";
import { readPlainKubeconfig } from "./plain-kubeconfig.ts";

/**
 * Credentials of a kubeconfig that the node's administrator names; it and its files are read again
 * when they change. @throws as {@link readPlainKubeconfig}
 */
export function kubeconfigCredentials(path: string): RereadCredentials {
  const read = () => readPlainKubeconfig(path, { allowsTokenFile: true });
  return new RereadCredentials({ source: `kubeconfig ${path}`, server: read().server, read });
}
