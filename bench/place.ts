import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { execa } from "execa";
import type { Daemon } from "../e2e/support/daemon.ts";
import { setUpNode } from "../e2e/support/node-setup.ts";
import { cniPluginDir, distPath, repositoryRoot } from "../e2e/support/paths.ts";
import { smallMemory, startPlexusd } from "../e2e/support/plexusd.ts";
import { ApiServer } from "./api-server/client.ts";
import { namespaces } from "./calls.ts";
import { nodeName } from "./objects.ts";

/** A build of Plexus with its configuration, and a separate daemon, socket and state directory. */
export interface Build {
  readonly id: "plexus" | "plexus-after" | "plexus-other";
  readonly name: string;
  /** Keys of plexusd's configuration. @default none */
  readonly config?: object;
  readonly shim: string;
  readonly plexusd: string;
  readonly socket: string;
  readonly state: string;
}

/** Where the benchmark works: a directory, and namespaces that end with the process. */
export interface Place {
  readonly dir: string;
  /** The only directory that is searched for plugins: the reference plugins and the no-op plugin. */
  readonly plugins: string;
  readonly runner: string;
  readonly inspect: string;
  readonly standalone: string;
  /** The directory in BENCH_PLEXUS. */
  readonly otherBuild: string | undefined;
  /** Plexus, the same with another configuration, and with BENCH_PLEXUS another build of it. */
  readonly builds: readonly [Build, ...Build[]];
  readonly api: ApiServer;
  /** Multus's daemon: its socket's directory, and that of the default networks' configurations. */
  readonly thick: { readonly sockets: string; readonly primaries: string };
  /** The control group that the contenders' groups are made in. */
  readonly cpuGroups: string;
}

/** The contenders that have a kubeconfig: the API server counts their requests by it. */
const tokens = [
  "floor-duties",
  "plexus",
  "plexus-after",
  "plexus-other",
  "floor-standalone",
  "plexus-standalone",
  "plexus-standalone-further",
  "plexus-standalone-other",
  "multus",
];

const addNamespaces =
  "seq -f 'netns add 00000000-0000-4000-8000-%012.0f' 0 $(($1 - 1)) | ip -batch -";

/** Builds the C parts, starts the API server and prepares the node and the pods' namespaces. */
export async function preparePlace(): Promise<Place> {
  const dir = mkdtempSync(join(tmpdir(), "plexus-bench-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const named = process.env.BENCH_PLEXUS ?? "";
  const otherBuild = named === "" ? undefined : resolve(named);
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
    standalone: distPath("plexus-standalone"),
    otherBuild,
    builds: buildsIn(dir, otherBuild),
    api: await ApiServer.start(join(dir, "api"), tokens),
    thick,
    cpuGroups: process.env.PLEXUS_BENCH_CGROUPS ?? "plexus-bench",
  };
}

function buildsIn(dir: string, other: string | undefined): [Build, ...Build[]] {
  const [shim, plexusd] = [distPath("plexus"), distPath("plexusd.js")];
  const own = placed(dir, { id: "plexus", name: "Plexus", shim, plexusd });
  const config = { publishStatus: "afterReply" };
  const name = "Plexus, status after";
  const after = placed(dir, { id: "plexus-after", name, shim, plexusd, config });
  if (other === undefined) return [own, after];
  const files = { shim: join(other, "plexus"), plexusd: join(other, "plexusd.js") };
  return [own, after, placed(dir, { id: "plexus-other", name: "Plexus (other)", ...files })];
}

function placed(dir: string, build: Omit<Build, "socket" | "state">): Build {
  return { ...build, socket: join(dir, `${build.id}.sock`), state: join(dir, `${build.id}-state`) };
}

/** Starts plexusd as deploy/base/daemonset.yaml does, and waits until it serves. */
export function startDaemon(
  place: Place,
  build: Build,
  nodeFlags: readonly string[] = [],
): Promise<Daemon> {
  const { id, plexusd, socket, state } = build;
  const flags = ["--kubeconfig", place.api.kubeconfig(id), "--node", nodeName];
  return startPlexusd({
    program: plexusd,
    socket,
    stateDir: state,
    logFile: join(place.dir, `${id}.log`),
    nodeFlags: [...smallMemory.flags, ...nodeFlags],
    env: { PATH: process.env.PATH ?? "", ...smallMemory.env },
    flags: [...flags, ...configFlags(place, build)],
  });
}

/** plexusd watches the directory of its configuration, so nothing else is written there. */
function configFlags({ dir }: Place, { id, config }: Build): string[] {
  if (config === undefined) return [];
  const own = join(dir, `${id}-config`);
  const file = join(own, "config.yaml");
  mkdirSync(join(own, "net.d"), { recursive: true });
  writeFileSync(file, JSON.stringify(config));
  return ["--config", file, "--cni-conf-dir", join(own, "net.d")];
}
