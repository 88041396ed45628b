import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Daemon } from "../../support/daemon.ts";
import type { Host } from "../machine/host.ts";
import { pauseImage } from "../machine/images.ts";
import type { Command } from "../machine/run.ts";
import type { NodeRuntime } from "../machine/runtime-machine.ts";
import { programPath, type Tools } from "./tools.ts";

/** containerd, of Debian or of the release that PLEXUS_E2E_CONTAINERD selects. */
export class Containerd implements NodeRuntime {
  readonly socket = "/run/containerd/containerd.sock";
  readonly #tools: Tools;
  #config = "";
  #daemon: Daemon | undefined;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  async writeFiles(root: string): Promise<void> {
    this.#config = join(root, "containerd.toml");
    await writeFile(this.#config, this.#configText());
  }

  async start(host: Host): Promise<void> {
    const path = `PATH=${programPath(this.#tools)}`;
    const command: Command = ["env", path, "containerd", `--config=${this.#config}`];
    const daemon = await host.startDaemon("containerd", command);
    this.#daemon = daemon;
    const version = this.#ctr("version");
    const ready = async (): Promise<boolean> => (await host.tryRun(version)).exitCode === 0;
    await daemon.waitUntil("containerd answers", ready, { timeoutMs: 20_000 });
  }

  async stop(): Promise<void> {
    await this.#daemon?.stop();
    this.#daemon = undefined;
  }

  importCommand(): Command {
    return this.#ctr("--namespace=k8s.io", "images", "import");
  }

  #ctr(...args: string[]): Command {
    return [join(this.#tools.containerd, "ctr"), `--address=${this.socket}`, ...args];
  }

  /**
   * Version 2, which containerd 1.6 reads and 2.x migrates. Where a machine gives root no CAP_SYS_RESOURCE, no process
   * may lower its OOM score: hence restrict_oom_score_adj, and the kubelet's oomScoreAdj of 0.
   */
  #configText(): string {
    const cri = 'plugins."io.containerd.grpc.v1.cri"';
    const runc = `${cri}.containerd.runtimes.runc`;
    return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "${this.socket}"

[${cri}]
  sandbox_image = "${pauseImage}"
  restrict_oom_score_adj = true
  disable_apparmor = true

[${cri}.cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"

[${runc}]
  runtime_type = "io.containerd.runc.v2"

[${runc}.options]
  BinaryName = "${join(this.#tools.debian, "usr/sbin/runc")}"
  SystemdCgroup = false
`;
  }
}
