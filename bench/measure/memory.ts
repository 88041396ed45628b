import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import type { Place } from "../place.ts";
import type { ProcessMemory } from "../results.ts";

/** How often a call is made; each process counts with its highest. */
const times = 5;

/** The memory of each process that an ADD and a DEL start, by inspect.c; of no-op plugins, which have next to none. */
export async function callMemory(
  place: Place,
  contender: Contender,
  set: Delegates,
): Promise<ProcessMemory[]> {
  const report = join(place.dir, `memory-${contender.id}`);
  rmSync(report, { force: true });
  for (let time = 0; time < times; time++) {
    for (const command of ["ADD", "DEL"] as const) {
      await contender.runner.runOne(contender.job({ command, set, sandbox: 0, inspect: report }));
    }
  }
  const highest = new Map<string, { peak: number; anonymous: number }>();
  const lines = existsSync(report) ? readFileSync(report, "utf8").trim().split("\n") : [];
  for (const [name = "", peak, anonymous] of lines.map((line) => line.split(" "))) {
    if (name === "noop") continue;
    const before = highest.get(name) ?? { peak: 0, anonymous: 0 };
    highest.set(name, {
      peak: Math.max(before.peak, Number(peak) / 1024),
      anonymous: Math.max(before.anonymous, Number(anonymous) / 1024),
    });
  }
  return [...highest].map(([name, memory]) => ({
    contender: contender.name,
    process: name,
    when: "a call",
    memory,
  }));
}
