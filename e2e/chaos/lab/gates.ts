import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Fault } from "../fault.ts";
import type { Place } from "./place.ts";
import { ipamType } from "./topology.ts";

/** What a gate does when it is reached (fixtures/gate.c). */
export type GateAction = "hold" | "hang" | "kill" | "stop" | "garbage" | "flood" | "fail";

/** The plugin process that has reached its gate. */
export interface Reached {
  readonly pid: number;
  readonly parent: number;
}

/** The gates in front of the real plugins. */
export class Gates {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  /** From now on the gate of that step does this. */
  set(key: string, action: GateAction): void {
    writeFileSync(this.#path("control", key), action);
  }

  /** Lets go what `hold` holds. */
  release(key: string): void {
    rmSync(this.#path("control", key), { force: true });
  }

  /** Who has reached the gate, if anybody has. */
  reached(key: string): Reached | undefined {
    const path = this.#path("reached", key);
    if (!existsSync(path)) return undefined;
    const [pid = 0, parent = 0] = readFileSync(path, "utf8").split(" ").map(Number);
    return { pid, parent };
  }

  /** Opens all gates and forgets who came by. */
  async clear(): Promise<void> {
    for (const folder of ["control", "reached"]) {
      const dir = join(this.#place.root, folder);
      for (const name of await readdir(dir)) await rm(join(dir, name), { force: true });
    }
  }

  /** Where the plugins are now: what a runtime has in CNI_PATH. */
  get dir(): string {
    const { binDir, movedDir } = this.#place;
    return existsSync(movedDir) ? movedDir : binDir;
  }

  /** Whether the plugins are elsewhere than at the start of the run. */
  get haveMoved(): boolean {
    return this.dir !== this.#place.binDir;
  }

  /** Takes a plugin away: until the next repair, or with `lost` until the end of the run. */
  hide(type: string, folder: "hidden" | "lost"): void {
    const path = join(this.dir, type);
    if (existsSync(path)) renameSync(path, join(this.#place.root, folder, type));
  }

  /** Moves all plugins to another directory, until the end of the run. */
  move(): void {
    if (this.dir === this.#place.binDir) renameSync(this.dir, this.#place.movedDir);
  }

  /** Gives back the plugins that were taken away, but for those that are lost. */
  async restore(): Promise<void> {
    await this.#giveBack("hidden");
  }

  /** Puts every plugin back to where it was. */
  async restoreAll(): Promise<void> {
    await this.#giveBack("hidden");
    await this.#giveBack("lost");
    if (this.dir !== this.#place.binDir) renameSync(this.dir, this.#place.binDir);
  }

  async #giveBack(folder: "hidden" | "lost"): Promise<void> {
    const from = join(this.#place.root, folder);
    for (const type of await readdir(from)) renameSync(join(from, type), join(this.dir, type));
  }

  #path(folder: "control" | "reached", key: string): string {
    return join(this.#place.root, folder, key);
  }
}

/** The name of a container's gate at a step. @throws Error when the step is not one of a plugin */
export function gateOf(
  containerId: string,
  { operation, step }: Pick<Fault, "operation" | "step">,
): string {
  const { moment, ifName, plugin } = step;
  if (ifName === undefined || plugin === undefined) throw new Error(`${moment} has no gate`);
  const isIpam = moment.startsWith("ipam");
  const side = moment === "before" || moment === "ipam" ? "before" : "after";
  return [containerId, isIpam ? ipamType : plugin, operation, ifName, side].join(".");
}
