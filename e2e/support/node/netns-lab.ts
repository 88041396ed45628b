import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa, type Options, type Result } from "execa";
import { waitUntil } from "../wait.ts";

/** @throws Error when real namespaces cannot be used here; the tests that need them fail with it */
export function requireRoot(): void {
  if (process.getuid?.() !== 0)
    throw new Error("network namespaces need root: run the tests as root");
}

/** In the lab's own mount namespace: fresh places for what CNI plugins keep outside their configuration. */
const setUp = `
set -e
mkdir -p /run/netns /run/cni /var/lib/cni
for dir in /run/netns /run/cni /var/lib/cni; do mount -t tmpfs tmpfs "$dir"; done
mount --make-shared /run/netns
ip link set lo up
touch "$1"
exec sleep infinity`;

/** How a lab is made. */
export interface LabOptions {
  /** The lab has the machine's own network: only for a machine that is the test's own. @default false */
  readonly machineNetwork?: boolean;
}

/**
 * A node in private network and mount namespaces, in which CNI plugins may change anything.
 * The machine's own network is never touched, unless the test asks for it.
 */
export class NetnsLab implements AsyncDisposable {
  readonly dir: string;
  readonly #holder: ChildProcess;
  readonly #namespaces: readonly string[];

  private constructor(dir: string, holder: ChildProcess, namespaces: readonly string[]) {
    this.dir = dir;
    this.#holder = holder;
    this.#namespaces = namespaces;
  }

  static async create({ machineNetwork = false }: LabOptions = {}): Promise<NetnsLab> {
    requireRoot();
    const dir = await mkdtemp(join(tmpdir(), "plexus-lab-"));
    const ready = join(dir, ".ready");
    const namespaces = machineNetwork ? ["--mount"] : ["--net", "--mount"];
    const unshare = ["unshare", ...namespaces, "--propagation", "private"];
    const args = ["--pdeathsig=KILL", "--", ...unshare, "sh", "-c", setUp, "lab", ready];
    // It ends with this process, however that one ends: vitest waits for whatever has its stderr.
    const holder = spawn("setpriv", args, { stdio: ["ignore", "ignore", "inherit"] });
    await waitUntil("the lab is set up", () => holder.exitCode !== null || existsSync(ready));
    if (holder.exitCode !== null) throw new Error(`unshare failed with ${holder.exitCode}`);
    await rm(ready);
    return new NetnsLab(dir, holder, namespaces);
  }

  /** The process that holds the namespaces. */
  get pid(): number {
    return this.#holder.pid as number;
  }

  /** The command line that runs something inside, for processes that are spawned by other means. */
  command(...command: string[]): [string, ...string[]] {
    return [
      "nsenter",
      "-t",
      String(this.pid),
      ...this.#namespaces,
      `--wd=${process.cwd()}`,
      "--",
      ...command,
    ];
  }

  /** Runs a command inside and returns its trimmed stdout; a failure throws with all that it printed. */
  async run(...command: string[]): Promise<string> {
    const [file, ...args] = this.command(...command);
    return (await execa(file, args)).stdout;
  }

  /** Runs a command inside with options; does not throw on a failure. */
  async try(command: readonly string[], options: Options = {}): Promise<Result> {
    const [file, ...args] = this.command(...command);
    return (await execa(file, args, { reject: false, ...options })) as Result;
  }

  /** Makes a pod's network namespace; returns the path that runtimes would give as CNI_NETNS. */
  async addNetns(name: string): Promise<string> {
    await this.run("ip", "netns", "add", name);
    await this.run("ip", "-n", name, "link", "set", "lo", "up");
    return `/run/netns/${name}`;
  }

  /** Makes a link that macvlan networks can sit on. */
  async addUplink(name: string): Promise<void> {
    await this.run("ip", "link", "add", name, "type", "veth", "peer", "name", `${name}-peer`);
    await this.run("ip", "link", "set", name, "up");
    await this.run("ip", "link", "set", `${name}-peer`, "up");
  }

  async deleteNetns(name: string): Promise<void> {
    await this.run("ip", "netns", "del", name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#holder.kill("SIGKILL");
    await rm(this.dir, { recursive: true, force: true });
  }
}
