import { createHash } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/*
 * How the agents of Istio and Linkerd change the node's CNI configuration, by their sources:
 * istio/istio cni/pkg/install (1.20 to 1.30), linkerd/linkerd2-proxy-init
 * cni-plugin/deployment/scripts (1.6). A test calls react() where they react to inotify.
 */

type Plugin = Record<string, unknown> & { type: string };
interface List extends Record<string, unknown> {
  plugins: Plugin[];
}

/** What the agent of a service mesh does on a node. */
export interface MeshAgent {
  /** The type of its plugin. */
  readonly type: string;
  /** Its reaction to a change of the directory. @returns whether it wrote a file */
  react(): Promise<boolean>;
  /** Its clean exit. */
  exit(): Promise<void>;
}

/** Istio's: its plugin is the last of the first valid file. */
export class IstioAgent implements MeshAgent {
  readonly type = "istio-cni";
  readonly #dir: string;
  readonly #binary: string;
  #file: string | undefined;

  constructor({ conf, bin }: { conf: string; bin: string }) {
    this.#dir = conf;
    this.#binary = join(bin, this.type);
  }

  async react(): Promise<boolean> {
    await writeFile(this.#binary, "", { flag: "a", mode: 0o755 });
    const first = await this.#firstValid();
    if (first === undefined) return false;
    const { name, list } = first;
    if (name === this.#file && has(list, this.type)) return false;
    this.#file = name;
    // MarshalCNIConfig sorts the keys of maps.
    list.plugins = [...without(list, this.type), istioPlugin];
    await this.#write(name, list);
    return true;
  }

  async exit(): Promise<void> {
    if (this.#file !== undefined) {
      const list = await readList(join(this.#dir, this.#file));
      if (list !== undefined) {
        await this.#write(this.#file, { ...list, plugins: without(list, this.type) });
      }
    }
    await rm(this.#binary, { force: true });
  }

  async #firstValid(): Promise<{ name: string; list: List } | undefined> {
    for (const name of await confFiles(this.#dir)) {
      const list = await readList(join(this.#dir, name));
      if (list !== undefined && list.plugins.length > 0) return { name, list };
    }
    return undefined;
  }

  async #write(name: string, list: List): Promise<void> {
    const temporary = join(this.#dir, `.${name}293125112`);
    await writeFile(temporary, `${JSON.stringify(sorted(list), undefined, 2)}\n`, { mode: 0o644 });
    await rename(temporary, join(this.#dir, name));
  }
}

const istioPlugin: Plugin = {
  dns: {},
  exclude_namespaces: ["istio-system", "kube-system"],
  ipam: {},
  name: "istio-cni",
  type: "istio-cni",
};

/** Linkerd's: its plugin is the last of every file. */
export class LinkerdAgent implements MeshAgent {
  readonly type = "linkerd-cni";
  readonly #dir: string;
  readonly #binary: string;
  readonly #written = new Map<string, string>();

  constructor({ conf, bin }: { conf: string; bin: string }) {
    this.#dir = conf;
    this.#binary = join(bin, this.type);
  }

  async react(): Promise<boolean> {
    await writeFile(this.#binary, "", { flag: "a", mode: 0o755 });
    let hasWritten = false;
    for (const name of await confFiles(this.#dir)) {
      const path = join(this.#dir, name);
      const text = await readFile(path, "utf8").catch(() => "");
      if (sha(text) === this.#written.get(name)) continue;
      const list = (await readList(path)) ?? (await readSingle(path));
      if (list === undefined) continue;
      const plugins = [...without(list, this.type), linkerdPlugin];
      const patched = `${JSON.stringify({ ...list, plugins }, undefined, 2)}\n`;
      const target = name.replace(/\.conf$/, ".conflist");
      this.#written.set(target, sha(patched));
      const temporary = join(this.#dir, "../linkerd-cni.conf.default");
      await writeFile(temporary, patched);
      if (target !== name) await rename(path, join(this.#dir, target));
      await rename(temporary, join(this.#dir, target));
      hasWritten = true;
    }
    return hasWritten;
  }

  /** Not atomic: a reader can find an empty file. */
  async exit(): Promise<void> {
    for (const name of await confFiles(this.#dir)) {
      const path = join(this.#dir, name);
      const list = await readList(path);
      if (list === undefined) continue;
      await writeFile(path, "");
      const plugins = without(list, this.type);
      await writeFile(path, `${JSON.stringify({ ...list, plugins }, undefined, 2)}\n`);
    }
    await rm(this.#binary, { force: true });
  }
}

const linkerdPlugin: Plugin = {
  name: "linkerd-cni",
  type: "linkerd-cni",
  linkerd: { "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102 },
};

async function confFiles(dir: string): Promise<string[]> {
  return (await readdir(dir)).filter((name) => /\.conf(list)?$/.test(name)).sort();
}

async function readList(path: string): Promise<List | undefined> {
  try {
    const list = JSON.parse(await readFile(path, "utf8"));
    return Array.isArray(list.plugins) ? list : undefined;
  } catch {
    return undefined;
  }
}

/** A file of one plugin as a list, as the agents make it. */
async function readSingle(path: string): Promise<List | undefined> {
  try {
    const { name, cniVersion, ...plugin } = JSON.parse(await readFile(path, "utf8"));
    return typeof plugin.type === "string" ? { name, cniVersion, plugins: [plugin] } : undefined;
  } catch {
    return undefined;
  }
}

function without({ plugins }: List, type: string): Plugin[] {
  return plugins.filter((plugin) => plugin.type !== type);
}

function has(list: List, type: string): boolean {
  return list.plugins.some((plugin) => plugin.type === type);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, each]) => [key, sorted(each)]);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
}

function sha(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
