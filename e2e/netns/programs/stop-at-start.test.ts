import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, test } from "vitest";
import { Daemon } from "../../support/daemon.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { plexusdFlags } from "../../support/plexusd.ts";

/** A kubeconfig of an API server that never answers, so that a start takes seconds. */
async function silentApi(dir: string): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const kubeconfig = join(dir, "kubeconfig");
  const config = {
    ...{ apiVersion: "v1", kind: "Config", "current-context": "x" },
    clusters: [{ name: "x", cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: "x", user: { token: "x" } }],
    contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  return kubeconfig;
}

test("plexusd ends at once on SIGTERM while it starts, also as process 1 of a container", async () => {
  const dir = await mkdtemp(join(tmpdir(), "plexus-stop-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const paths = { socket: join(dir, "plexus.sock"), stateDir: join(dir, "state") };
  const flags = [...plexusdFlags(paths), "--kubeconfig", await silentApi(dir), "--node", "node-1"];
  const plexusd = Daemon.start({
    ...{ name: "plexusd", logFile: join(dir, "log"), inPidNamespace: true },
    command: [
      ...["unshare", "--pid", "--kill-child", nodeBinary(), distPath("plexusd.js")],
      ...flags,
    ] as [string, ...string[]],
  });
  onTestFinished(() => plexusd.stop("SIGKILL"));
  await plexusd.waitUntil("it starts", () => plexusd.log.includes("plexusd starts"));
  await plexusd.stop("SIGTERM");
});
