import { tryParseJson } from "#cni/document.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";

/** Of the service mesh whose agent it is. */
export type Mesh = "istio" | "linkerd";

const { cniConfDir, cniBinDir } = defaultPaths;
/** Until an agent has noticed a change, in microseconds. */
const [noticeMinUs, noticeMaxUs] = [1000, 500_000];

/** A network configuration list of the node. */
interface ListFile {
  readonly path: string;
  readonly text: string;
  readonly list: JsonObject & { readonly plugins: readonly JsonObject[] };
}

/** The lists in the container runtime's directory, in its order, without those that are none. */
export function listFiles(): ListFile[] {
  const { disk } = world();
  const names = disk.list(cniConfDir).map(([name]) => name);
  return names
    .filter((name) => /\.conf(list)?$/.test(name))
    .toSorted()
    .flatMap((name) => {
      const path = `${cniConfDir}/${name}`;
      const text = disk.readFile(path).toString();
      const list = tryParseJson(text);
      const isList = isJsonObject(list) && Array.isArray(list.plugins);
      return isList ? [{ path, text, list: list as ListFile["list"] }] : [];
    });
}

/** The types of a list's plugins. */
export function typesOf({ list }: Pick<ListFile, "list">): string[] {
  return list.plugins.map(({ type }) => String(type));
}

/** Where the agent of a mesh installs its plugin. */
function meshPluginPath(mesh: Mesh): string {
  return `${cniBinDir}/${mesh}-cni`;
}

/**
 * The agent of a service mesh. It appends its plugin to the node's configuration: istio-cni to the
 * first file, linkerd-cni to all, again after each change by others. At its end it removes it.
 */
export class MeshAgent {
  readonly #mesh: Mesh;
  /** What it has written, by path; istio-cni remembers the last. */
  readonly #written = new Map<string, string>();
  readonly process = new Process("mesh agent");
  #isDue = false;

  constructor(mesh: Mesh) {
    this.#mesh = mesh;
    const { disk } = world();
    const watch = (path: string): void => {
      if (path.startsWith(cniConfDir)) this.#notice();
    };
    disk.watchers.add(watch);
    this.process.onEnd(() => disk.watchers.delete(watch));
    this.#later(1000, () => {
      disk.writeFile(meshPluginPath(mesh), "", 0o755);
      this.#notice();
    });
  }

  /** Its clean end: the plugin first, its executable last. */
  stop(): void {
    this.#later(1000, () => {
      for (const file of listFiles()) {
        const isOwn = this.#mesh === "linkerd" || this.#written.has(file.path);
        if (isOwn && typesOf(file).includes(this.#type)) this.#write(file, false);
      }
      world().disk.unlink(meshPluginPath(this.#mesh));
      world().schedule.kill(this.process);
    });
  }

  /** Repeats what fails, as when the disk is full. */
  #later(delayUs: number, step: () => void): void {
    const run = (): void => {
      try {
        step();
      } catch {
        this.#later(1e6, step);
      }
    };
    world().schedule.at(delayUs, run, this.process);
  }

  get #type(): string {
    return `${this.#mesh}-cni`;
  }

  #notice(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#later(world().random.duration(noticeMinUs, noticeMaxUs), () => {
      this.#isDue = false;
      this.#patch();
    });
  }

  #patch(): void {
    const files = listFiles();
    if (this.#mesh === "linkerd") {
      for (const file of files)
        if (this.#written.get(file.path) !== file.text) this.#write(file, true);
      return;
    }
    const [first] = files;
    if (first === undefined) return;
    if (this.#written.has(first.path) && typesOf(first).includes(this.#type)) return;
    this.#written.clear();
    this.#write(first, true);
  }

  /** Writes a file with its plugin as the last one, or without it. */
  #write({ path, list }: ListFile, has: boolean): void {
    const { disk } = world();
    const others = list.plugins.filter(({ type }) => type !== this.#type);
    const plugins = has ? [...others, { type: this.#type }] : others;
    const text = JSON.stringify({ ...list, plugins }, undefined, 2);
    this.#written.set(path, text);
    disk.writeFile(`${path}.tmp`, text, 0o644);
    disk.rename(`${path}.tmp`, path);
  }
}
