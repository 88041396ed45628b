import { tryParseJson } from "#cni/document.ts";
import { IstioAgent, LinkerdAgent } from "#daemon/cni-conf/testing/mesh-agents.ts";
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

/** The agent of a service mesh, as a process that reacts to changes of the directory. */
export class MeshAgent {
  readonly process = new Process("mesh agent");
  readonly #agent: IstioAgent | LinkerdAgent;
  #isDue = false;

  constructor(mesh: Mesh) {
    const places = { conf: cniConfDir, bin: cniBinDir };
    this.#agent = mesh === "istio" ? new IstioAgent(places) : new LinkerdAgent(places);
    const { disk } = world();
    const watch = (path: string): void => {
      if (path.startsWith(cniConfDir)) this.#notice();
    };
    disk.watchers.add(watch);
    this.process.onEnd(() => disk.watchers.delete(watch));
    this.#notice();
  }

  /** Its clean end. */
  stop(): void {
    this.#isDue = true;
    this.#later(1000, async () => {
      await this.#agent.exit();
      world().schedule.kill(this.process);
    });
  }

  #notice(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#later(world().random.duration(noticeMinUs, noticeMaxUs), async () => {
      this.#isDue = false;
      await this.#agent.react();
    });
  }

  /** Repeats what fails, as when the disk is full. */
  #later(delayUs: number, step: () => Promise<void>): void {
    const run = (): void => void step().catch(() => this.#later(1e6, step));
    world().schedule.at(delayUs, run, this.process);
  }
}
