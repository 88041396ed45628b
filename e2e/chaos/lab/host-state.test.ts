import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { makeBuilds } from "./builds.ts";
import type { Shown, Task } from "./host-state-worker.ts";
import { runOnWorkers } from "./workers.ts";

const file = (path: string): Task => ({ make: `echo x >${path}`, undo: `rm ${path}` });
const state = "/run/chaos/disk/state";

// e2e/netns/host-state.test.ts shows the same for what the kernel keeps.
const leftovers: readonly (readonly [line: string, task: Task])[] = [
  [
    "+ processes: S sleep 1000",
    {
      make: "sleep 1000 >/dev/null 2>&1 & echo $! >/run/chaos/etc/pid",
      undo: "kill $(cat /run/chaos/etc/pid)",
    },
  ],
  [
    "+ locks: FLOCK",
    {
      make: `touch ${state}/lock; flock -x ${state}/lock sleep 1000 >/dev/null 2>&1 & sleep 0.2`,
      undo: "pkill -x sleep",
    },
  ],
  [`+ files: ${state}/c@eth0.record`, file(`${state}/c@eth0.record`)],
  [`+ files: ${state}/c.lock`, file(`${state}/c.lock`)],
  [
    "+ files: /var/lib/cni/networks/default/10.71.0.2",
    file("/var/lib/cni/networks/default/10.71.0.2"),
  ],
  ["+ files: /run/chaos/tmp/x", file("/run/chaos/tmp/x")],
];
let seen: readonly Shown[];

beforeAll(async () => {
  await using builds = await makeBuilds();
  seen = await runOnWorkers<Task, Shown>(
    leftovers.map(([, task]) => task),
    {
      program: join(import.meta.dirname, "host-state-worker.ts"),
      args: [builds.fixtures],
      limitMs: 60_000,
      workers: 1,
    },
  );
});

test.each(leftovers.map(([line], n) => ({ line, n })))(
  "the comparison shows a leftover: $line",
  ({ line, n }) => {
    expect(seen[n]?.left.join("\n")).toContain(line);
    expect(seen[n]?.leaks).toEqual([]);
  },
);
