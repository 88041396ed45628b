import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { Daemon } from "../e2e/support/daemon.ts";
import { setUpNode } from "../e2e/support/node-setup.ts";
import { cniPluginDir, distPath, repositoryRoot } from "../e2e/support/paths.ts";
import { smallMemory, startPlexusd } from "../e2e/support/plexusd.ts";
import { ApiServer } from "./api-server/client.ts";
import { nodeName } from "./objects.ts";

/** Where the benchmark works: a directory, and namespaces that end with the process. */
export interface Place {
  readonly dir: string;
  /** The only directory that is searched for plugins: the reference plugins and the no-op plugin. */
  readonly plugins: string;
  readonly runner: string;
  readonly inspect: string;
  readonly shim: string;
  readonly standalone: string;
  readonly socket: string;
  readonly state: string;
  readonly api: ApiServer;
  /** Multus's daemon: its socket's directory, and that of the default networks' configurations. */
  readonly thick: { readonly sockets: string; readonly primaries: string };
  /** The control group that the contenders' groups are made in. */
  readonly cpuGroups: string;
}

const addNamespaces = "seq -f 'netns add bench-%.0f' 0 $(($1 - 1)) | ip -batch -";

/** How many network namespaces of pods there are: `bench-0` and on. */
export const namespaces = 100;

/** Builds the C parts, starts the API server and prepares the node and the pods' namespaces. */
export async function preparePlace(): Promise<Place> {
  const dir = mkdtempSync(join(tmpdir(), "plexus-bench-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const [bin, plugins] = [join(dir, "bin"), join(dir, "plugins")];
  const thick = { sockets: join(dir, "thick-run"), primaries: join(dir, "thick-primaries") };
  for (const made of [bin, plugins, thick.primaries]) mkdirSync(made);
  const programs = { runner: join(bin, "runner"), inspect: join(bin, "inspect") };
  for (const [name, to] of Object.entries({ ...programs, noop: join(plugins, "noop") })) {
    const source = join(repositoryRoot, "bench/native", `${name}.c`);
    await execa("cc", ["-O2", "-Wall", "-Wextra", "-static", "-o", to, source]);
  }
  for (const name of ["ptp", "macvlan", "host-local"]) {
    copyFileSync(join(cniPluginDir(), name), join(plugins, name));
  }
  await setUpNode();
  await execa("sh", ["-ec", addNamespaces, "bench", String(namespaces)]);
  return {
    dir,
    plugins,
    ...programs,
    shim: distPath("plexus"),
    standalone: distPath("plexus-standalone"),
    socket: join(dir, "run/plexus.sock"),
    state: join(dir, "state"),
    api: await ApiServer.start(join(dir, "api"), ["plexus", "plexus-standalone", "multus"]),
    thick,
    cpuGroups: process.env.PLEXUS_BENCH_CGROUPS ?? "plexus-bench",
  };
}

/** Starts plexusd as deploy/base/daemonset.yaml does, and waits until it serves. */
export function startDaemon(place: Place): Promise<Daemon> {
  return startPlexusd({
    socket: place.socket,
    stateDir: place.state,
    logFile: join(place.dir, "plexusd.log"),
    nodeFlags: smallMemory.flags,
    env: { PATH: process.env.PATH ?? "", ...smallMemory.env },
    flags: ["--kubeconfig", place.api.kubeconfig("plexus"), "--node", nodeName],
  });
}
