import type { Completed } from "./pool.ts";

/** What all runs of all contenders found. */
export interface MatrixReport {
  /** Which runs these were, so that they can be made again. */
  readonly selection: string;
  readonly contenders: readonly {
    readonly name: string;
    readonly completed: readonly Completed[];
  }[];
}

/** Whether the run left something. */
export function isLeaking({ result }: Completed): boolean {
  return result.leaks.length > 0;
}

/** Whether it left more than files that the contender itself keeps: addresses, links, rules, processes, a DEL that never succeeded. */
export function leavesNetwork({ result }: Completed): boolean {
  return result.leaks.some((leak) => !leak.startsWith("+ files: /run/chaos/disk/"));
}

/** Whether the runtime had to give up on a call that no fault had stopped. */
export function hasUnanswered({ result: { add, dels } }: Completed): boolean {
  return [add, ...dels].includes("no answer");
}

/** Puts the parts of a matrix together, each run once. @throws Error when they are of different runs */
export function mergeReports([first, ...others]: readonly MatrixReport[]): MatrixReport {
  if (first === undefined) throw new Error("there is no report");
  const stranger = others.find(({ selection }) => selection !== first.selection);
  if (stranger !== undefined)
    throw new Error(`"${stranger.selection}" is not "${first.selection}"`);
  const runs = new Map<string, Map<number, Completed>>();
  for (const { name, completed } of [first, ...others].flatMap(({ contenders }) => contenders)) {
    const known = runs.get(name) ?? new Map<number, Completed>();
    for (const each of completed) known.set(each.number, each);
    runs.set(name, known);
  }
  const contenders = [...runs].map(([name, known]) => ({ name, completed: [...known.values()] }));
  return { selection: first.selection, contenders };
}
