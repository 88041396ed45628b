import { cp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RuntimeMachine } from "./runtime-machine.ts";

interface ConfList {
  readonly plugins: readonly { readonly type: string }[];
}

/** Its ADD and its DEL fail, as those of a mesh whose control plane cannot be reached. CRI-O asks for its versions. */
const failing = `#!/bin/sh
[ "$CNI_COMMAND" != VERSION ] || exec /opt/cni/bin/tuning
echo '{"cniVersion":"1.0.0","code":120,"msg":"the mesh is not ready"}'
exit 1
`;

/** A plugin that the agent of a service mesh has appended to Plexus's list on a machine. Its executable is missing. */
export class NextPlugin implements AsyncDisposable {
  readonly type = "e2e-mesh";
  readonly #machine: RuntimeMachine;

  private constructor(machine: RuntimeMachine) {
    this.#machine = machine;
  }

  static async append(machine: RuntimeMachine): Promise<NextPlugin> {
    const plugin = new NextPlugin(machine);
    await plugin.#change((others) => [...others, { type: plugin.type }]);
    return plugin;
  }

  /** Installs an executable that fails. */
  async installFailing(): Promise<void> {
    await this.#install((path) => writeFile(path, failing, { mode: 0o755 }));
  }

  /** Installs one that does nothing: `tuning` without anything to tune. */
  async installWorking(): Promise<void> {
    await this.#install((path) => cp(join(this.#machine.cniBinDir, "tuning"), path));
  }

  /** As an agent leaves: first the executable, as plexusd restores plugins that have one. */
  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#executable, { force: true });
    await this.#change((others) => others);
  }

  get #executable(): string {
    return join(this.#machine.cniBinDir, this.type);
  }

  /** At once, as a plugin that is written while it is executed fails in another way. */
  async #install(write: (path: string) => Promise<void>): Promise<void> {
    const temporary = join(this.#machine.cniBinDir, `.${this.type}`);
    await write(temporary);
    await rename(temporary, this.#executable);
  }

  async #change(to: (others: ConfList["plugins"]) => ConfList["plugins"]): Promise<void> {
    const path = join(this.#machine.cniConfDir, "00-plexus.conflist");
    const conf = JSON.parse(await readFile(path, "utf8")) as ConfList;
    const plugins = to(conf.plugins.filter(({ type }) => type !== this.type));
    const temporary = join(this.#machine.cniConfDir, ".00-plexus.conflist");
    await writeFile(temporary, JSON.stringify({ ...conf, plugins }));
    await rename(temporary, path);
  }
}
