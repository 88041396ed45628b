import { mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { writeBusyboxImage } from "../cluster/machine/images.ts";
import { Machine } from "../cluster/machine/machine.ts";
import { Reaper } from "../cluster/machine/reaper.ts";
import type { Command, RunResult } from "../cluster/machine/run.ts";
import { type HostState, type HostStateKind, readHostState } from "../support/host-state.ts";
import { repositoryRoot } from "../support/paths.ts";
import { type ClientTools, prepareClientTools } from "./tools.ts";

/** What containers could leave behind. */
const comparedKinds: readonly HostStateKind[] = [
  "links",
  "addresses",
  "routes",
  "iptables chains",
  "iptables rules",
  "address leases",
  "cached results",
  "attachment records",
  "locks",
];

/** Names nerdctl's containerd namespace, and thereby its control groups. */
const namespace = "plexus_nerdctl";

/** A machine with containerd with nerdctl, and cnitool, without Kubernetes. */
export class ClientsMachine extends Machine implements AsyncDisposable {
  readonly #tools: ClientTools;
  readonly #reaper: Reaper;

  private constructor(tools: ClientTools, directory: string) {
    super({
      ...{ name: "clients", init: tools.init, root: join(directory, "machine") },
      logs: join(directory, "logs"),
      setup: `cp -r "$1/settings/." /etc/`,
    });
    this.#tools = tools;
    this.#reaper = new Reaper({ directory, cgroup: namespace });
  }

  /** A machine that has booted, where nothing of Plexus is installed. */
  static async create(): Promise<ClientsMachine> {
    const tools = await prepareClientTools();
    const directory = await mkdtemp(join(tmpdir(), "plexus-clients-"));
    const machine = new ClientsMachine(tools, directory);
    try {
      await machine.writeFiles();
      await machine.boot();
      const image = await writeBusyboxImage(join(tools.debian, "usr/bin/busybox"), directory);
      await machine.sh(`nerdctl load -i ${image}`);
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Boots the machine with the files that the last boot has left, and starts containerd. */
  override async boot(): Promise<void> {
    await this.powerOff();
    await super.boot();
    const command = this.#withEnvironment(["containerd"]);
    const daemon = await this.host.startDaemon("containerd", command);
    const ready = async (): Promise<boolean> => (await this.try("nerdctl version")).exitCode === 0;
    await daemon.waitUntil("containerd answers", ready);
  }

  /** Runs shell commands in the checkout, as root. @throws Error when one fails */
  sh(commands: string): Promise<string> {
    return this.host.run(this.#shell(commands));
  }

  /** Runs shell commands, whatever their exit status. */
  try(commands: string): Promise<RunResult> {
    return this.host.tryRun(this.#shell(commands));
  }

  state(): Promise<HostState> {
    const run = (command: Command): Promise<string> => this.host.run(command);
    return readHostState({ run, stateDir: "/var/lib/plexus" }, { kinds: comparedKinds });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
    await this.#reaper.reap();
  }

  #shell(commands: string): Command {
    const script = `cd ${repositoryRoot}\n${commands}`;
    return this.#withEnvironment(["bash", "-euo", "pipefail", "-c", script]);
  }

  #withEnvironment(command: Command): Command {
    const { debian } = this.#tools;
    const own = [
      join(this.root, "bin"),
      ...["usr/bin", "usr/sbin"].map((dir) => join(debian, dir)),
    ];
    return ["env", `PATH=${[...own, "/usr/sbin:/usr/bin:/sbin:/bin"].join(":")}`, ...command];
  }

  override async writeFiles(): Promise<void> {
    await super.writeFiles();
    const { nerdctl, cnitool, debian } = this.#tools;
    const bin = join(this.root, "bin");
    await mkdir(bin, { recursive: true });
    await symlink(nerdctl, join(bin, "nerdctl"));
    await symlink(cnitool, join(bin, "cnitool"));
    await symlink(join(debian, "usr/bin/busybox"), join(bin, "wget"));
    for (const [name, text] of Object.entries(settings)) {
      await mkdir(dirname(join(this.root, "settings", name)), { recursive: true });
      await writeFile(join(this.root, "settings", name), text);
    }
  }
}

/** What a machine without systemd, and without a file system for layers, needs below /etc. */
const settings = {
  "containerd/config.toml": `version = 3
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
`,
  "nerdctl/nerdctl.toml": `cgroup_manager = "cgroupfs"
snapshotter = "native"
cni_path = "/opt/cni/bin"
# Names the control group, too.
namespace = "${namespace}"
`,
};
