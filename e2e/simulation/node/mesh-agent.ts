import { tryParseJson } from "#cni/document.ts";
import { IstioAgent, LinkerdAgent } from "#daemon/cni-conf/testing/mesh-agents.ts";
import { namedPlugins } from "#engine/config.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";

/** Of the service mesh whose agent it is. */
export type Mesh = "istio" | "linkerd";

const { cniConfDir, cniBinDir } = defaultPaths;
/** Until an agent has noticed a change, in microseconds. */
const [noticeMinUs, noticeMaxUs] = [1000, 500_000];
/** At most between plexusd's last look at its file and the rename over it, in microseconds. */
const lookUs = 5000;

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

/** The types that Plexus leaves out of the default network. */
export function omittedTypes(): string[] {
  const [first] = listFiles();
  return namedPlugins(first?.list.plugins[0]?.omittedPlugins).map(({ type }) => type);
}

/** Calls back with what a write of plexusd took from its file that an agent had appended. */
export function watchAppended(onLoss: (types: readonly string[]) => void): void {
  const { disk, schedule } = world();
  let [appended, sinceUs]: [string[], number] = [[], 0];
  disk.watchers.add((path) => {
    if (path !== `${cniConfDir}/${plexusConfName}`) return;
    const [first] = listFiles();
    const now = first?.path === path ? typesOf(first).slice(1) : [];
    const lost = appended.filter((type) => !now.includes(type) && isInstalled(type));
    // plexusd cannot notice what is appended between its last look and the rename.
    const isSeen = schedule.nowUs - sinceUs > lookUs;
    if (schedule.current.name === "plexusd" && lost.length > 0 && isSeen) onLoss(lost);
    if (now.join() !== appended.join()) [appended, sinceUs] = [now, schedule.nowUs];
  });
}

/**
 * Calls back if plexusd ends just after it has brought back a plugin whose agent had left: before it
 * has looked at the executable again.
 */
export function watchRevived(onRevived: () => void): void {
  const { disk, schedule } = world();
  disk.watchers.add((path) => {
    const { current, nowUs } = schedule;
    if (path !== `${cniConfDir}/${plexusConfName}` || current.name !== "plexusd") return;
    const [first] = listFiles();
    if (first?.path !== path || typesOf(first).every(isInstalled)) return;
    current.onEnd(() => {
      if (schedule.nowUs - nowUs < lookUs) onRevived();
    });
  });
}

/** People remove from Plexus's file what has no executable, as `doctor` tells them. */
export function removeRevived(): void {
  const [first] = listFiles();
  if (first === undefined) return;
  const plugins = first.list.plugins.filter(({ type }) => isInstalled(String(type)));
  world().disk.install(first.path, JSON.stringify({ ...first.list, plugins }));
}

function isInstalled(type: string): boolean {
  return world().disk.exists(`${cniBinDir}/${type}`);
}

/** The agent of a service mesh, as a process that reacts to changes of the directory. */
export class MeshAgent {
  readonly process = new Process("mesh agent");
  readonly #agent: IstioAgent | LinkerdAgent;
  /** Whether it has removed its plugin, as at a clean end. */
  isGone = false;
  #isDue = false;
  #hasReacted = false;
  /** Its last step; the next one waits for it. */
  #step = Promise.resolve();

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

  /** Its clean end, after it has begun. */
  stop(): void {
    this.#isDue = true;
    this.#later(1000, async () => {
      if (!this.#hasReacted) await this.#agent.react();
      await this.#agent.exit();
      this.isGone = true;
      world().schedule.kill(this.process);
    });
  }

  #notice(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#later(world().random.duration(noticeMinUs, noticeMaxUs), async () => {
      this.#isDue = false;
      await this.#agent.react();
      this.#hasReacted = true;
    });
  }

  /** Repeats what fails, as when the disk is full. */
  #later(delayUs: number, step: () => Promise<void>): void {
    const run = (): void => {
      this.#step = this.#step.then(step).catch(() => this.#later(1e6, step));
    };
    world().schedule.at(delayUs, run, this.process);
  }
}
