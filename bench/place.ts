import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { manifestText } from "../e2e/support/manifests.ts";
import { cniPluginDir, distPath, repositoryRoot } from "../e2e/support/paths.ts";

/** Where the benchmark works: a directory, and namespaces that end with the process. */
export interface Place {
  readonly dir: string;
  /** Searched for plugins: the reference plugins and the no-op plugin. */
  readonly cniPath: string;
  readonly runner: string;
  readonly shim: string;
  readonly socket: string;
  readonly stateDir: string;
  readonly manifests: string;
  readonly logFile: string;
}

const setUp = `
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /run/netns /run/cni /var/lib/cni
ip link set lo up
ip link add up0 type veth peer name up0-peer
ip link set up0 up
ip link set up0-peer up
for n in $(seq 0 $(($1 - 1))); do ip netns add "bench-$n"; ip -n "bench-$n" link set lo up; done`;

/** Builds the C parts and prepares the node with that many pod namespaces, `bench-0` and on. */
export async function preparePlace(namespaces: number): Promise<Place> {
  const dir = mkdtempSync(join(tmpdir(), "plexus-bench-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const bin = join(dir, "bin");
  for (const made of [bin, join(dir, "manifests")]) mkdirSync(made);
  for (const name of ["runner", "noop"]) {
    const source = join(repositoryRoot, "bench", `${name}.c`);
    await execa("cc", ["-O2", "-Wall", "-Wextra", "-static", "-o", join(bin, name), source]);
  }
  await execa("sh", ["-ec", setUp, "bench", String(namespaces)]);
  return {
    dir,
    cniPath: `${bin}:${cniPluginDir()}`,
    runner: join(bin, "runner"),
    shim: distPath("plexus"),
    socket: join(dir, "run/plexus.sock"),
    stateDir: join(dir, "state"),
    manifests: join(dir, "manifests"),
    logFile: join(dir, "plexusd.log"),
  };
}

/** Writes a manifest: objects become one YAML document each. */
export function writeManifest(place: Place, name: string, objects: readonly object[]): void {
  writeFileSync(join(place.manifests, `${name}.yaml`), manifestText(objects));
}

/** Resident memory of a process now and at its highest, in MiB. */
export function residentMiB(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
  return { now: field("VmRSS"), peak: field("VmHWM") };
}
