import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Host } from "./host.ts";

/** What a machine is made from. */
export interface MachineOptions {
  readonly name: string;
  /** The directory that keeps what a reboot leaves. */
  readonly root: string;
  readonly logs: string;
  /** A static init: see init.c. */
  readonly init: string;
  /** Shell commands to run after machine-setup.sh. @default none */
  readonly setup?: string;
}

/** A host that can be killed, and booted again with the files that the last boot has left. */
export class Machine {
  readonly name: string;
  /** What a reboot keeps, seen from outside: the machine's /etc/cni is `${root}/etc/cni`, and so on. */
  readonly root: string;
  readonly #options: MachineOptions;
  /** Names the current boot, or the last one while the machine is down. */
  bootId = "";
  #host: Host | undefined;

  constructor(options: MachineOptions) {
    this.name = options.name;
    this.root = options.root;
    this.#options = options;
  }

  /** The host that it runs on. @throws Error while the machine is down */
  get host(): Host {
    if (this.#host === undefined) throw new Error(`${this.name} is down`);
    return this.#host;
  }

  get isUp(): boolean {
    return this.#host !== undefined;
  }

  /** The path of a file that a reboot keeps, seen from outside. */
  at(path: string): string {
    return join(this.root, path);
  }

  /** Writes a new machine's files. Nothing runs yet. */
  async writeFiles(): Promise<void> {
    await mkdir(this.root, { recursive: true });
    await writeFile(this.at("machine-id"), `${randomUUID().replaceAll("-", "")}\n`);
  }

  /** Boots the machine, which must be down. */
  async boot(): Promise<void> {
    const { name, init, logs, setup = "" } = this.#options;
    this.bootId = randomUUID();
    await writeFile(this.at("boot-id"), `${this.bootId}\n`);
    const common = await readFile(join(import.meta.dirname, "machine-setup.sh"), "utf8");
    const args = [this.root];
    this.#host = await Host.start({ name, init, logs, setup: `${common}\n${setup}`, args });
  }

  /** Ends everything on the machine at once: a power cut. */
  async powerOff(): Promise<void> {
    await this.#host?.kill();
    this.#host = undefined;
  }
}
