import { beforeAll, describe, expect, test } from "vitest";
import { recoveries } from "./reboot.ts";
import { runTasks } from "./run.ts";
import { stories } from "./stories.ts";
import type { Task, TaskResult } from "./worker.ts";

const [, second] = stories;
if (second === undefined) throw new Error("there are no stories");
// Only plexusd has such stories.
const edited = stories.filter(({ scenario }) => scenario.startsWith("edit "));
const short = {
  survivals: ["everything", "only what was synced"],
  recoveries: recoveries.filter((name) => name !== "GC"),
} as const;
const tasks = {
  whole: { ...short, story: second },
  withoutContent: { story: second, survivals: ["names without content"], recoveries },
  withoutFiles: {
    story: second,
    survivals: ["names without content"],
    recoveries: ["DEL"],
    without: "files",
  },
  withoutDirectories: {
    story: second,
    survivals: ["only what was synced"],
    recoveries: ["DEL"],
    without: "directories",
  },
} as const satisfies Record<string, Task>;

let results: Record<keyof typeof tasks, TaskResult>;
let resultsOfEdits: TaskResult[];

beforeAll(async () => {
  const names = Object.keys(tasks);
  const ofEdits = edited.map((story) => ({ ...short, story }));
  const all = await runTasks([...Object.values(tasks), ...ofEdits]);
  resultsOfEdits = all.slice(names.length);
  results = Object.fromEntries(names.map((name, n) => [name, all[n]])) as typeof results;
});

test("after a power loss at any disk operation of ADD and DEL, everything is detached", () => {
  expect(results.whole.leaks).toEqual([]);
  expect(results.whole.recoveries).toBeGreaterThan(20 * short.recoveries.length);
});

test("the same if records have lost their content, also when the runtime only collects garbage", () => {
  expect(results.withoutContent.leaks).toEqual([]);
  expect(results.withoutContent.recoveries).toBeGreaterThanOrEqual(recoveries.length);
});

test("the same for edits of the annotation of a running pod", () => {
  expect(resultsOfEdits.flatMap(({ leaks }) => leaks)).toEqual([]);
  expect(resultsOfEdits).toHaveLength(edited.length);
});

describe("the test finds leftovers without the fsyncs of", () => {
  test.each([
    ["records and plans", "withoutFiles"],
    ["their directory", "withoutDirectories"],
  ] as const)("%s", (_, name) => {
    expect(results[name].leaks.flatMap(({ left }) => left).join("\n")).toContain("/var/lib/cni/");
  });
});
