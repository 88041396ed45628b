import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { Host } from "../cluster/machine/host.ts";
import { writeBusyboxImage } from "../cluster/machine/images.ts";
import { Reaper } from "../cluster/machine/reaper.ts";
import type { Daemon } from "../support/daemon.ts";
import { type HostState, type HostStateKind, readHostState } from "../support/host-state.ts";
import { cniPluginDir, distPath, nodeBinary } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { type DockerBuild, dockerBuild } from "./builds.ts";

/** Addresses outside of the machine, and of the machine in that network. */
export const outside = { address: "203.0.113.1", machine: "203.0.113.2" } as const;

/**
 * Runs in the machine's mount namespace: empty directories for what dockerd, plugins and Plexus keep at
 * fixed paths. `up0` leads to the namespace `outside`; `wire0` is a master for macvlan networks.
 */
const setUp = `
for dir in /run/docker /run/netns /run/plexus /run/cni /var/lib/cni; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --make-shared /run/netns
mount --make-shared /run/docker
# Without a registry, dockerd must not wait for name servers.
echo 'nameserver 127.0.0.1' >/run/plexus/resolv.conf
mount --bind /run/plexus/resolv.conf /etc/resolv.conf
ip netns add outside
ip link add up0 type veth peer name out0 netns outside
ip address add ${outside.machine}/24 dev up0
ip link set up0 up
ip route add default via ${outside.address}
ip -n outside address add ${outside.address}/24 dev out0
ip -n outside link set out0 up
ip -n outside link set lo up
ip link add wire0 type veth peer name wire1
ip link set wire0 up
ip link set wire1 up
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding`;

/** What containers could leave behind. */
const comparedKinds: readonly HostStateKind[] = [
  "links",
  "addresses",
  "routes",
  "qdiscs",
  "iptables rules",
  "netns",
  "address leases",
  "other plugin files",
  "attachment records",
  "temporary files",
];

/** How dockerd is started. */
export interface DockerdOptions {
  /** Whether containers keep running while dockerd is stopped. @default false */
  readonly liveRestore?: boolean;
}

/** A machine made of namespaces, with dockerd and the driver. */
export class DockerMachine implements AsyncDisposable {
  readonly dir: string;
  readonly build: DockerBuild;
  readonly #host: Host;
  readonly #reaper: Reaper;
  #dockerd: Daemon | undefined;
  #driver: Daemon | undefined;

  private constructor(parts: { dir: string; build: DockerBuild; host: Host; reaper: Reaper }) {
    this.dir = parts.dir;
    this.build = parts.build;
    this.#host = parts.host;
    this.#reaper = parts.reaper;
  }

  /** Makes the machine without starting dockerd and driver. */
  static async create(name: DockerBuild["name"]): Promise<DockerMachine> {
    const build = await dockerBuild(name);
    const init = await initProgram();
    const dir = await mkdtemp(join(tmpdir(), "plexus-docker-"));
    const reaper = new Reaper({ directory: dir, cgroup: basename(dir) });
    await mkdir(join(dir, "manifests"));
    const logs = join(dir, "logs");
    const host = await Host.start({ name: "docker", init, logs, setup: setUp });
    await writeBusyboxImage(build.busybox, dir);
    return new DockerMachine({ dir, build, host, reaper });
  }

  /** Where clients reach dockerd. */
  get dockerHost(): string {
    return `unix://${this.#apiSocket}`;
  }

  get manifestsDir(): string {
    return join(this.dir, "manifests");
  }

  /** The archive of `busyboxImage`. */
  get imageArchive(): string {
    return join(this.dir, "busybox.tar");
  }

  /** The logs of dockerd and the driver. */
  get log(): string {
    return [this.#dockerd, this.#driver].map((each) => each?.log ?? "").join("\n");
  }

  get #apiSocket(): string {
    return join(this.dir, "docker.sock");
  }

  get #stateDir(): string {
    return join(this.dir, "state");
  }

  /** Runs a program on the machine and returns its trimmed output. @throws Error when it fails */
  async run(...command: [string, ...string[]]): Promise<string> {
    return (await this.#host.run(command)).trim();
  }

  /** Runs a program outside of the machine. @throws Error when it fails */
  runOutside(...command: [string, ...string[]]): Promise<string> {
    return this.run("ip", "netns", "exec", "outside", ...command);
  }

  /** Runs the docker CLI. @throws Error when it fails */
  docker(...args: string[]): Promise<string> {
    const client = join(this.build.binDirs[1] ?? "", "docker");
    return this.run(client, "-H", this.dockerHost, ...args);
  }

  /** Starts dockerd and waits until it answers. */
  async startDockerd({ liveRestore = false }: DockerdOptions = {}): Promise<void> {
    const path = [...this.build.binDirs, "/usr/sbin", "/usr/bin", "/sbin", "/bin"].join(":");
    const dockerd = await this.#host.startDaemon("dockerd", [
      "env",
      ...[`PATH=${path}`, "dockerd", "-H", this.dockerHost],
      // The exec root is the default, /var/run/docker, which managed plugins mount.
      ...["--data-root", join(this.dir, "data")],
      ...["--pidfile", join(this.dir, "docker.pid"), "--storage-driver", "overlay2"],
      ...["--cgroup-parent", `/${basename(this.dir)}`],
      ...(liveRestore ? ["--live-restore"] : []),
    ]);
    this.#dockerd = dockerd;
    await dockerd.waitUntil("dockerd serves", () => dockerd.log.includes("API listen on"));
  }

  /** Stops dockerd; on SIGTERM it stops its containers first. */
  async stopDockerd(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await this.#dockerd?.stop(signal);
    // A killed dockerd leaves its pidfile, and its containerd for the next dockerd.
    if (signal === "SIGKILL") await rm(join(this.dir, "docker.pid"), { force: true });
  }

  /** Starts the driver and waits until it serves. `reconcileSeconds` is the period of its timer. */
  async startDriver({ reconcileSeconds = 1 } = {}): Promise<void> {
    const driver = await this.#host.startDaemon("plexusctl", [
      nodeBinary(),
      ...[distPath("plexusctl.js"), "docker", "--manifests", this.manifestsDir],
      ...["--bin-dir", cniPluginDir(), "--shim", distPath("plexus")],
      ...["--state-dir", this.#stateDir, "--call-socket", join(this.dir, "call.sock")],
      ...["--reconcile-seconds", `${reconcileSeconds}`, "--del-grace-seconds", "1"],
      ...["--log-level", "debug"],
    ]);
    this.#driver = driver;
    await driver.waitUntil("the driver serves", () => driver.log.includes("driver serves"));
  }

  async stopDriver(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await this.#driver?.stop(signal);
  }

  /** The driver's endpoints. */
  async endpoints(): Promise<readonly string[]> {
    const listed = await this.run("ls", join(this.#stateDir, "endpoints"));
    return listed.split("\n").filter((name) => name.endsWith(".json"));
  }

  /** Waits until the driver has seen the containers of all its endpoints. */
  async waitUntilSeen(): Promise<void> {
    const dir = join(this.#stateDir, "endpoints");
    const unseen = `grep -L '"sandboxSeen":true' ${dir}/*.json || true`;
    await waitUntil(
      "the driver has seen the containers",
      async () => (await this.run("sh", "-c", unseen)) === "",
    );
  }

  /** What exists on the machine for containers. */
  state(): Promise<HostState> {
    const run = (command: [string, ...string[]]): Promise<string> => this.run(...command);
    const stateDir = join(this.#stateDir, "records");
    return readHostState({ run, stateDir }, { kinds: comparedKinds });
  }

  /** Stops everything and removes its files outside of the namespaces. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dockerd?.stop("SIGTERM");
    await this.#driver?.stop("SIGKILL");
    await this.#host.kill();
    await this.#reaper.reap();
  }
}
