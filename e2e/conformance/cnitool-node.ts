import { existsSync } from "node:fs";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RunResult } from "../cluster/machine/run.ts";
import { PlexusNode } from "../support/node/plexus-node.ts";
import { cnitoolBinary } from "./tools.ts";

/** cnitool's commands. */
type CnitoolCommand = "add" | "check" | "del" | "gc" | "status";

/** What is not the usual in a run. */
interface CnitoolOptions {
  readonly ifName?: string;
  /** CNI_ARGS as a whole. */
  readonly args?: string;
  readonly capabilities?: object;
}

/** A node whose container runtime is cnitool: libcni with its configuration, environment and cache. */
export class CnitoolNode implements AsyncDisposable {
  readonly node: PlexusNode;
  readonly #cnitool: string;

  private constructor(node: PlexusNode, cnitool: string) {
    this.node = node;
    this.#cnitool = cnitool;
  }

  static async create(): Promise<CnitoolNode> {
    const cnitool = await cnitoolBinary();
    const node = await PlexusNode.create();
    await node.startDaemon();
    const runtime = new CnitoolNode(node, cnitool);
    await mkdir(runtime.#confDir);
    await mkdir(runtime.#binDir);
    await symlink(node.shim, join(runtime.#binDir, "plexus"));
    return runtime;
  }

  get #confDir(): string {
    return join(this.node.lab.dir, "net.d");
  }

  get #binDir(): string {
    return join(this.node.lab.dir, "bin");
  }

  /** Gives the runtime its one configuration: Plexus with these keys, perhaps among other plugins. */
  async configure(
    cniVersion: string,
    keys: object,
    { before = [], after = [] }: { before?: object[]; after?: object[] } = {},
  ): Promise<void> {
    const plugins = [...before, { type: "plexus", ...keys }, ...after];
    const list = { cniVersion, name: "plexus", plugins };
    await writeFile(join(this.#confDir, "00-plexus.conflist"), JSON.stringify(list));
  }

  /** Runs cnitool for a network namespace of the lab. Never throws: what went wrong is in the outcome. */
  async run(
    command: CnitoolCommand,
    netns: string,
    options: CnitoolOptions = {},
  ): Promise<RunResult> {
    const { node } = this;
    const { ifName, args, capabilities } = options;
    const env = {
      PATH: process.env.PATH ?? "",
      ...node.shimEnvironment,
      NETCONFPATH: this.#confDir,
      CNI_PATH: [this.#binDir, ...node.cniPath].join(":"),
      ...(ifName === undefined ? {} : { CNI_IFNAME: ifName }),
      ...(args === undefined ? {} : { CNI_ARGS: args }),
      ...(capabilities === undefined ? {} : { CAP_ARGS: JSON.stringify(capabilities) }),
    };
    const call = [this.#cnitool, command, "plexus", `/run/netns/${netns}`];
    const { exitCode, stdout, stderr } = await node.lab.try(call, { env, extendEnv: false });
    return { exitCode: exitCode ?? -1, stdout: String(stdout), stderr: String(stderr) };
  }

  /** The same for what must succeed; returns what it printed. */
  async must(command: CnitoolCommand, netns: string, options?: CnitoolOptions): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(command, netns, options);
    if (exitCode === 0) return stdout;
    throw new Error(`cnitool ${command} exited with ${exitCode}: ${stdout}${stderr}`);
  }

  /** Addresses that host-local has given out in a network. */
  async leases(network: string): Promise<string[]> {
    const dir = `/proc/${this.node.lab.pid}/root/var/lib/cni/networks/${network}`;
    if (!existsSync(dir)) return [];
    return (await readdir(dir)).filter((name) => name.startsWith("10."));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }
}
