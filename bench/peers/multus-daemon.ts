import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Daemon } from "../../e2e/support/daemon.ts";
import { startMultusDaemon } from "../../e2e/support/multus-daemon.ts";
import { cniVersion } from "../delegates.ts";
import { nodeName } from "../objects.ts";
import type { Place } from "../place.ts";
import type { Multus } from "./multus.ts";

/** Where client-go looks for a container's token; /run is the benchmark's own file system. */
const serviceAccount = "/run/secrets/kubernetes.io/serviceaccount";

/** Starts multus-daemon as its DaemonSet does, but without a chroot and without that manifest's limits of CPU and memory. */
export async function startThickMultus(place: Place, multus: Multus): Promise<Daemon> {
  // What it generates its configuration from; the contender names its own default networks.
  const primary = { cniVersion, name: "primary", plugins: [{ type: "noop" }] };
  writeFileSync(join(place.thick.primaries, "00-primary.conflist"), JSON.stringify(primary));
  return await startMultusDaemon({
    command: [multus.daemon],
    dir: join(place.dir, "multus-thick"),
    primaryDir: place.thick.primaries,
    config: {
      socketDir: place.thick.sockets,
      binDir: place.plugins,
      cniDir: join(place.dir, "multus-thick/cni"),
      logLevel: "error",
    },
    nodeName,
    env: await place.api.serviceAccount(serviceAccount, "multus-thick"),
  });
}
