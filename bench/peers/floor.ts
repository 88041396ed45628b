import { join } from "node:path";
import { Daemon } from "../../e2e/support/daemon.ts";
import { nodeBinary } from "../../e2e/support/paths.ts";
import { smallMemory } from "../../e2e/support/plexusd.ts";
import type { Place } from "../place.ts";

export function floorSocket(dir: string): string {
  return join(dir, "floor.sock");
}

/** Starts the empty engine with plexusd's flags, and waits until its orders are ready. */
export async function startFloor({ dir, plugins }: Place): Promise<Daemon> {
  const program = join(import.meta.dirname, "floor-engine.ts");
  const daemon = Daemon.start({
    name: "empty engine",
    command: [nodeBinary(), ...smallMemory.flags, program, floorSocket(dir), plugins],
    logFile: join(dir, "floor.log"),
    env: { PATH: process.env.PATH ?? "", ...smallMemory.env },
  });
  await daemon.waitUntil("the empty engine serves", () => daemon.log.includes("serves"));
  return daemon;
}
