import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { Host } from "../cluster/machine/host.ts";
import { Reaper } from "../cluster/machine/reaper.ts";
import { type RunOptions, run } from "../cluster/machine/run.ts";
import { rootFileSystem } from "../fresh/root-fs.ts";
import { writeSettings } from "../fresh/settings.ts";
import { dockerBuild } from "./builds.ts";

/** The image that stands for Debian's in builds: Debian's images are in a registry. */
export const buildImage = "fresh-debian";

/** A fresh Debian's settings of apt, npm and Go, in the places of its image. */
const withSettings = `FROM fresh-root
COPY . /mnt/share/
RUN cp /mnt/share/apt.conf /etc/apt/apt.conf.d/90machine && cp /mnt/share/npmrc /root/.npmrc
ENV SSL_CERT_FILE=/mnt/share/ca.pem
`;

/** A dockerd that only builds images: its builds have this machine's network, as packages come from there. */
export class DockerBuilder implements AsyncDisposable {
  readonly dir: string;
  readonly #host: Host;
  readonly #reaper: Reaper;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(parts: {
    dir: string;
    host: Host;
    reaper: Reaper;
    binDirs: readonly string[];
  }) {
    this.dir = parts.dir;
    this.#host = parts.host;
    this.#reaper = parts.reaper;
    this.#env = {
      PATH: [...parts.binDirs, "/usr/sbin", "/usr/bin", "/sbin", "/bin"].join(":"),
      DOCKER_HOST: `unix://${join(this.dir, "docker.sock")}`,
      DOCKER_CONFIG: this.dir,
    };
  }

  /** Starts dockerd, and makes `buildImage` of the root file system that `make fresh` uses. */
  static async create(): Promise<DockerBuilder> {
    const { binDirs } = await dockerBuild("unstable");
    const system = await rootFileSystem("trixie");
    const dir = await mkdtemp(join(tmpdir(), "plexus-builder-"));
    const reaper = new Reaper({ directory: dir, cgroup: basename(dir) });
    const plugins = join(binDirs[0] ?? "", "../libexec/docker/cli-plugins");
    await writeFile(join(dir, "config.json"), JSON.stringify({ cliPluginsExtraDirs: [plugins] }));
    // Removing a hundred thousand files from a disk takes minutes.
    const setup = 'for each in /run/docker "$1"; do mount -t tmpfs tmpfs "$each"; done';
    for (const each of ["/run/docker", join(dir, "data")]) await mkdir(each, { recursive: true });
    const init = await initProgram();
    const args = [join(dir, "data")];
    const options = { name: "builder", init, logs: dir, setup, args, sharesNetwork: true };
    const host = await Host.start(options);
    const builder = new DockerBuilder({ dir, host, reaper, binDirs: [...binDirs] });
    await builder.#startDockerd();
    await builder.#importSystem(system);
    return builder;
  }

  async #startDockerd(): Promise<void> {
    const { PATH, DOCKER_HOST } = this.#env;
    const untouched = ["--bridge=none", "--iptables=false", "--ip6tables=false"];
    const dockerd = await this.#host.startDaemon("dockerd", [
      "env",
      ...[`PATH=${PATH}`, "dockerd", "-H", `${DOCKER_HOST}`, ...untouched],
      ...["--ip-forward=false", "--ip-masq=false", "--storage-driver=overlay2"],
      ...["--data-root", join(this.dir, "data"), "--pidfile", join(this.dir, "docker.pid")],
      ...["--cgroup-parent", `/${basename(this.dir)}`],
    ]);
    await dockerd.waitUntil("dockerd serves", () => dockerd.log.includes("API listen on"));
  }

  async #importSystem(system: string): Promise<void> {
    const share = join(this.dir, "share");
    await mkdir(share);
    await writeSettings(share);
    await writeFile(join(share, "Dockerfile"), withSettings);
    await this.run("sh", "-c", 'tar -C "$0" -c . | docker import - fresh-root', system);
    await this.build(share, "--tag", buildImage);
  }

  /** Runs a program, such as docker, against this dockerd. @throws Error when it fails */
  run(...command: [string, ...string[]]): Promise<string> {
    const options: RunOptions = { env: this.#env };
    return run(command, options);
  }

  /** Builds an image as `docker build` does. @throws Error with the output of the failing command */
  build(context: string, ...flags: string[]): Promise<string> {
    return this.run("docker", "build", "--network=host", "--progress=plain", ...flags, context);
  }

  /** Stops everything and removes its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.kill();
    await this.#reaper.reap();
  }
}
