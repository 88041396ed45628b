import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { clearCgroups, makeCgroups } from "./cgroups.ts";
import type { Host } from "./host.ts";
import { Machine, type MachineOptions } from "./machine.ts";
import type { Command } from "./run.ts";

/** The container runtime of a machine. */
export interface NodeRuntime {
  /** Where it listens, on the machine. */
  readonly socket: string;
  /** Writes its files into the directory that keeps what a reboot leaves. */
  writeFiles(root: string): Promise<void>;
  /** Starts it, which must not be running, and waits until it answers. */
  start(host: Host): Promise<void>;
  /** Stops it. Pods go on running. */
  stop(): Promise<void>;
  /** The command that imports the image archives it is given. To be run on the machine. */
  importCommand(): Command;
}

/** What a machine with a container runtime is made from. */
export interface RuntimeMachineOptions extends MachineOptions {
  readonly runtime: NodeRuntime;
  /** The control group to keep pods in. */
  readonly cgroup: string;
  /** The directory of the reference CNI plugins. */
  readonly cniPlugins: string;
  /** The text of the primary CNI's configuration list. */
  readonly primaryNetwork: string;
  /** Image archives to have from the start. */
  readonly images: readonly string[];
}

/** A machine with a container runtime and a primary CNI. */
export class RuntimeMachine extends Machine {
  readonly cgroup: string;
  readonly runtime: NodeRuntime;
  readonly #options: RuntimeMachineOptions;

  constructor(options: RuntimeMachineOptions) {
    super(options);
    this.cgroup = options.cgroup;
    this.runtime = options.runtime;
    this.#options = options;
  }

  /** The machine's /etc/cni/net.d, seen from outside. */
  get cniConfDir(): string {
    return this.at("etc/cni/net.d");
  }

  /** The machine's /opt/cni/bin, seen from outside. */
  get cniBinDir(): string {
    return this.at("opt/cni/bin");
  }

  override async writeFiles(): Promise<void> {
    const { cniPlugins, primaryNetwork } = this.#options;
    await super.writeFiles();
    await mkdir(this.cniConfDir, { recursive: true });
    await cp(cniPlugins, this.cniBinDir, { recursive: true });
    await writeFile(join(this.cniConfDir, "10-primary.conflist"), primaryNetwork);
    await this.runtime.writeFiles(this.root);
    await makeCgroups(this.cgroup);
  }

  /** Boots the machine, which must be down; when it is connected, starts the container runtime. */
  override async boot(
    connect: (host: Host) => Promise<void> = async () => undefined,
  ): Promise<void> {
    await super.boot();
    await connect(this.host);
    await this.runtime.start(this.host);
    for (const archive of this.#options.images) await this.loadImage(archive);
  }

  override async powerOff(): Promise<void> {
    if (!this.isUp) return;
    await super.powerOff();
    await this.runtime.stop();
    await clearCgroups(this.cgroup);
  }

  /** Stops the container runtime and starts it again. Pods go on running. */
  async restartRuntime(): Promise<void> {
    await this.runtime.stop();
    await this.runtime.start(this.host);
  }

  /** Makes the images in an archive that writeImage() has made known to the container runtime, for pods. */
  async loadImage(archive: string): Promise<void> {
    await this.host.run([...this.runtime.importCommand(), archive]);
  }
}
