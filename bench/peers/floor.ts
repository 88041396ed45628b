import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { Daemon } from "../../e2e/support/daemon.ts";
import { nodeBinary, repositoryRoot } from "../../e2e/support/paths.ts";
import { smallMemory } from "../../e2e/support/plexusd.ts";
import type { Place } from "../place.ts";

export type FloorId = "floor" | "floor-duties";

export function isFloor(id: string): id is FloorId {
  return id === "floor" || id === "floor-duties";
}

export function floorSocket(dir: string, id: FloorId): string {
  return join(dir, `${id}.sock`);
}

/** Starts the empty engine with plexusd's flags, and waits until its orders are ready. */
export async function startFloor({ dir, plugins, api }: Place, id: FloorId): Promise<Daemon> {
  const program = join(import.meta.dirname, "floor-engine.ts");
  const records = join(dir, `${id}-records`);
  mkdirSync(records, { recursive: true });
  const duties = id === "floor-duties" ? [records, api.kubeconfig(id)] : [];
  const daemon = Daemon.start({
    name: "empty engine",
    command: [
      nodeBinary(),
      ...smallMemory.flags,
      program,
      floorSocket(dir, id),
      plugins,
      id,
      ...duties,
    ],
    logFile: join(dir, `${id}.log`),
    env: { PATH: process.env.PATH ?? "", ...smallMemory.env },
  });
  await daemon.waitUntil("the empty engine serves", () => daemon.log.includes("serves"));
  return daemon;
}

/** The executable that the floor of plexus-standalone is. */
export function standaloneFloor({ dir }: Place): string {
  return join(dir, "floor-standalone");
}

/** Compiles it as plexus-standalone is compiled. */
export async function buildStandaloneFloor(place: Place): Promise<void> {
  mkdirSync(join(place.dir, "floor-standalone-state"), { recursive: true });
  const entry = join(import.meta.dirname, "floor-standalone.ts");
  const flags = ["--standalone", "--entry", entry, "--out", standaloneFloor(place)];
  await execa(nodeBinary(), ["scripts/bundle.ts", ...flags], { cwd: repositoryRoot });
}
