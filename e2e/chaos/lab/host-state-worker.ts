import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { differences } from "../../support/host-state.ts";
import { readHostState } from "./host-state.ts";
import { preparePlace } from "./place.ts";
import { serveTasks } from "./workers.ts";

/** Leaves something on a node and takes it away again, with a shell. */
export interface Task {
  readonly make: string;
  readonly undo: string;
}

/** What the comparison shows before and after it is gone. */
export interface Shown {
  readonly left: readonly string[];
  readonly leaks: readonly string[];
}

serveTasks<Task, Shown>(async () => {
  const place = await preparePlace(process.argv[2] ?? "");
  mkdirSync(place.stateDir);
  mkdirSync("/var/lib/cni/networks/default", { recursive: true });
  const clean = await readHostState(place, []);
  const shown = async (): Promise<string[]> => differences(clean, await readHostState(place, []));
  return async ({ make, undo }) => {
    await execa("sh", ["-c", make]);
    const left = await shown();
    await execa("sh", ["-c", undo]);
    await sleep(50);
    return { left, leaks: await shown() };
  };
});
