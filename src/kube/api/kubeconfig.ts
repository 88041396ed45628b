import { RereadCredentials } from "./credentials.ts";
import { readPlainKubeconfig } from "./plain-kubeconfig.ts";

/**
 * The credentials of a kubeconfig; it and its files are read again when they change.
 * @throws Error naming the file and what is wrong with it
 */
export async function kubeconfigCredentials(path: string): Promise<RereadCredentials> {
  const read = () => readPlainKubeconfig(path, { allowsTokenFile: true });
  const { server } = read();
  return new RereadCredentials({ source: `kubeconfig ${path}`, server, read: async () => read() });
}
