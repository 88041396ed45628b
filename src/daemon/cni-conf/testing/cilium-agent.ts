import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MeshAgent } from "./mesh-agents.ts";

type Plugin = Record<string, unknown> & { type: string };
interface List extends Record<string, unknown> {
  plugins: Plugin[];
}

const ownFile = "05-cilium.conflist";

/**
 * Cilium's agent with `cni.chainingMode` or `cni.chainingTarget` and `cni.exclusive=false`, by its
 * source (cilium/cilium daemon/cmd/cni): its file is the first other file with the target's name,
 * and its plugin.
 */
export class CiliumAgent implements MeshAgent {
  readonly type = "cilium-cni";
  /** The plugin's settings. */
  settings: Record<string, unknown> = { "chaining-mode": "aws-cni" };
  readonly #dir: string;
  readonly #target: string;
  readonly #binary: string;

  constructor({ conf, bin }: { conf: string; bin: string }, target = "*") {
    this.#dir = conf;
    this.#target = target;
    this.#binary = join(bin, this.type);
  }

  async react(): Promise<boolean> {
    await writeFile(this.#binary, "", { flag: "a", mode: 0o755 });
    const list = await this.#findNetwork();
    if (list === undefined) return false;
    const at = list.plugins.findIndex(({ type }) => type === this.type);
    const plugin = { type: this.type, ...this.settings };
    list.plugins.splice(at < 0 ? list.plugins.length : at, 1, plugin);
    // It keeps the form of what it copies.
    const text = `${JSON.stringify(list, undefined, 2)}\n`;
    const path = join(this.#dir, ownFile);
    if ((await readFile(path, "utf8").catch(() => "")) === text) return false;
    const temporary = join(this.#dir, `.${ownFile}52461`);
    await writeFile(temporary, text);
    await rename(temporary, path);
    return true;
  }

  /** With `cni.uninstall`: the executable stays. */
  async exit(): Promise<void> {
    await rm(join(this.#dir, ownFile), { force: true });
  }

  async #findNetwork(): Promise<List | undefined> {
    const names = (await readdir(this.#dir)).filter((name) =>
      /\.(conflist|conf|json|cilium_bak)$/.test(name),
    );
    for (const name of names.sort()) {
      if (name === ownFile) continue;
      const text = await readFile(join(this.#dir, name), "utf8").catch(() => "");
      try {
        const list: List = JSON.parse(text);
        if (this.#target === "*" || this.#target === list.name) return list;
      } catch {}
    }
    return undefined;
  }
}
