import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Host } from "../cluster/machine/host.ts";
import type { Command } from "../cluster/machine/run.ts";
import type { NodeRuntime } from "../cluster/machine/runtime-machine.ts";
import type { Daemon } from "../support/daemon.ts";
import {
  crioConfig,
  crioSocket,
  lenientRunc,
  registriesConfig,
  storage,
  storageConfig,
  unpackedConmon,
} from "./crio-config.ts";
import type { CrioTools } from "./tools.ts";

/** CRI-O on a host, and calls of its RuntimeService. */
export class Crio implements NodeRuntime {
  readonly socket = crioSocket;
  readonly #tools: CrioTools;
  #root = "";
  #host: Host | undefined;
  #daemon: Daemon | undefined;

  constructor(tools: CrioTools) {
    this.#tools = tools;
  }

  async writeFiles(root: string): Promise<void> {
    this.#root = root;
    const [runc, conmon] = [join(root, "runc"), join(root, "conmon")];
    await writeFile(runc, lenientRunc(this.#tools), { mode: 0o755 });
    await writeFile(conmon, unpackedConmon(this.#tools), { mode: 0o755 });
    await writeFile(join(root, "crio.conf"), crioConfig(this.#tools, { runc, conmon }));
    await writeFile(join(root, "storage.conf"), storageConfig);
    await writeFile(join(root, "registries.conf"), registriesConfig);
  }

  async start(host: Host): Promise<void> {
    this.#host = host;
    const env: Command = ["env", `CONTAINERS_STORAGE_CONF=${join(this.#root, "storage.conf")}`];
    const flags = [
      ...["--config", join(this.#root, "crio.conf"), "--config-dir", ""],
      ...["--registries-conf", join(this.#root, "registries.conf")],
    ];
    const daemon = await host.startDaemon("crio", [...env, this.#program("crio"), ...flags]);
    this.#daemon = daemon;
    await daemon.waitUntil("CRI-O answers", () => this.call("Version").then(() => true));
  }

  async stop(): Promise<void> {
    // From here on nothing waits for this one's log, whose end would look like a failure.
    const daemon = this.#daemon;
    this.#daemon = undefined;
    await daemon?.stop();
  }

  importCommand(): Command {
    return [this.#program("cri"), "load", storage.graphRoot, storage.runRoot];
  }

  /**
   * Waits until CRI-O's default network is ours, under this name. Nothing is waited for while it is stopped. CRI has
   * no answer that names the network; the log has both lines in this order, as one goroutine writes them.
   */
  async waitForNetwork(name: string): Promise<void> {
    const daemon = this.#daemon;
    if (daemon === undefined) return;
    const found = `Found CNI network ${name} (type=plexus)`;
    const updated = `Updated default CNI network name to ${name}`;
    await daemon.waitUntil(`CRI-O has found network ${name} of Plexus`, () => {
      const at = daemon.log.indexOf(found);
      return at >= 0 && daemon.log.includes(updated, at);
    });
  }

  /** Calls a method of the RuntimeService. @throws Error with its message when it fails */
  async call<T = unknown>(method: string, request: object = {}): Promise<T> {
    if (this.#host === undefined) throw new Error("CRI-O has not been started");
    const command: Command = [this.#program("cri"), "call", crioSocket, method];
    return JSON.parse(await this.#host.run(command, { input: JSON.stringify(request) })) as T;
  }

  #program(name: string): string {
    return join(this.#tools.crio, name);
  }
}
