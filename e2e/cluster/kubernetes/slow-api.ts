import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Daemon } from "../../support/daemon.ts";
import { nodeBinary } from "../../support/paths.ts";
import { addresses, apiServerUrl } from "./addresses.ts";
import type { Cluster } from "./cluster.ts";
import { serviceRules } from "./node-config.ts";

const proxyPort = 6444;

/**
 * An API server whose answers to a PATCH of a pod come late, for the clients on the first node that reach it by its
 * Service: plexusd, and not the kubelet. Open connections remain, so restart plexusd.
 */
export class SlowApi implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #proxy: Daemon;

  private constructor(cluster: Cluster, proxy: Daemon) {
    this.#cluster = cluster;
    this.#proxy = proxy;
  }

  static async start(cluster: Cluster): Promise<SlowApi> {
    const { directory, controlPlane } = cluster;
    const pki = (name: string): string => join(directory, "pki", name);
    const tls = [pki("kube-apiserver.crt"), pki("kube-apiserver.key"), pki("ca.crt")];
    const program = join(import.meta.dirname, "slow-proxy.ts");
    const args = [String(proxyPort), apiServerUrl, ...tls, delayFile(cluster)];
    await writeFile(delayFile(cluster), "0");
    const proxy = await controlPlane.host.startDaemon("slow-proxy", [
      nodeBinary(),
      program,
      ...args,
    ]);
    const ask = ["curl", "--insecure", "--silent", "--output", "/dev/null"] as const;
    const url = `https://${addresses.controlPlane}:${proxyPort}/version`;
    await proxy.waitUntil(
      "the proxy answers",
      async () => (await controlPlane.host.tryRun([...ask, url])).exitCode === 0,
    );
    const slow = new SlowApi(cluster, proxy);
    await slow.#route(proxyPort);
    return slow;
  }

  /** How late answers are from now on. */
  async delay(ms: number): Promise<void> {
    await writeFile(delayFile(this.#cluster), String(ms));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#route(addresses.apiServerPort);
    await this.#proxy.stop();
  }

  async #route(port: number): Promise<void> {
    const input = `delete table ip kubernetes\n${serviceRules(port)}`;
    await this.#cluster.inNode(["nft", "--file", "-"], { input });
  }
}

function delayFile({ directory }: Cluster): string {
  return join(directory, "slow-proxy.delay");
}
