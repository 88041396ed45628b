import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon } from "../../e2e/support/daemon.ts";
import { cniVersion } from "../delegates.ts";
import { nodeName } from "../objects.ts";
import type { Place } from "../place.ts";
import type { Multus } from "./multus.ts";

/** Where client-go looks for a container's token; /run is the benchmark's own file system. */
const serviceAccount = "/run/secrets/kubernetes.io/serviceaccount";

/**
 * Starts multus-daemon as its DaemonSet does, but without a chroot and without that manifest's
 * limits of CPU and memory, and waits until it serves: until it has written the node's configuration.
 */
export async function startMultusDaemon(place: Place, multus: Multus): Promise<Daemon> {
  const confDir = join(place.dir, "thick-net.d");
  rmSync(confDir, { recursive: true, force: true });
  mkdirSync(confDir);
  place.api.serviceAccount(serviceAccount, "multus-thick");
  const configPath = join(place.dir, "thick-daemon.json");
  const config = {
    cniVersion,
    socketDir: place.thick.sockets,
    multusConfigFile: "auto",
    multusAutoconfigDir: place.thick.primaries,
    cniConfigDir: confDir,
    binDir: place.plugins,
    cniDir: join(place.dir, "multus-thick"),
    logLevel: "error",
    logToStderr: true,
  };
  writeFileSync(configPath, JSON.stringify(config));
  // What it generates its configuration from; the contender names its own default networks.
  const primary = { cniVersion, name: "primary", plugins: [{ type: "noop" }] };
  writeFileSync(join(place.thick.primaries, "00-primary.conflist"), JSON.stringify(primary));
  const environment = [
    `PATH=${process.env.PATH}`,
    "KUBERNETES_SERVICE_HOST=127.0.0.1",
    `KUBERNETES_SERVICE_PORT=${place.api.port}`,
    `MULTUS_NODE_NAME=${nodeName}`,
  ];
  const daemon = Daemon.start({
    name: "multus-daemon",
    command: ["env", "-i", ...environment, multus.daemon, "--config", configPath],
    logFile: join(place.dir, "multus-daemon.log"),
  });
  await daemon.waitUntil("multus-daemon has written its configuration", () =>
    existsSync(join(confDir, "00-multus.conf")),
  );
  return daemon;
}
