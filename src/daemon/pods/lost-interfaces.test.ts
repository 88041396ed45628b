import { expect, test } from "vitest";
import type { Inspection } from "#engine/hotplug/inspection/heal.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { noSandboxHosts } from "#engine/ports/empty-ports.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { AgentTasks } from "./agent-tasks.ts";
import { LostInterfaces } from "./lost-interfaces.ts";

type Found = Inspection | Error;

/** A node with pods; the map says what is found in each, and when. */
function makeNode(found: Readonly<Record<string, Found | Promise<Found>>>) {
  const logger = new FakeLogger();
  const healed: string[] = [];
  const looks: string[] = [];
  const time = { ms: 0 };
  const pods = Object.keys(found).map((name) => ({ namespace: "default", name, uid: name }) as Pod);
  const tasks = new AgentTasks(noSandboxHosts);
  const lost = new LostInterfaces({
    engine: {
      inspect: async ({ name }) => {
        looks.push(name);
        const its = await found[name];
        if (its instanceof Error) throw its;
        return its as Inspection;
      },
    },
    tasks,
    nodePods: { list: () => pods },
    hotPlug: { heal: ({ uid }) => void healed.push(uid) },
    logger,
    conf: async () => ({}),
    clock: () => time.ms,
  });
  return { lost, healed, looks, logger, pods, tasks, time };
}

const intact = { lost: [], willHeal: false };

test("lost interfaces of all pods are counted, whatever happens to one of them", async () => {
  const { lost, healed, logger, pods } = makeNode({
    a: { lost: ["net1 is lost", "net2 is lost"], willHeal: false },
    busy: new SandboxUnavailableError("busy", "another operation runs"),
    broken: new Error("the record is damaged"),
    b: { lost: ["net1 is lost"], willHeal: false },
  });
  await lost.check();
  expect([lost.count, healed]).toEqual([3, []]);
  expect(logger.at("warn")).toEqual(["cannot look for lost interfaces"]);
  pods.length = 1;
  await lost.check();
  const problem = "net1 is lost; net2 is lost";
  expect(lost.problems()).toEqual([{ pod: "default/a", reason: "InterfaceLost", problem }]);
  expect(lost.problemsOf({ namespace: "default", name: "a" })).toHaveLength(2);
  expect(lost.problemsOf({ namespace: "other", name: "a" })).toEqual([]);
  expect(lost.count).toBe(2);
});

test("a pod whose network is to be attached again does not wait for looks into others [H-39]", async () => {
  const { lost, healed } = makeNode({
    slow: new Promise(() => undefined),
    a: { lost: ["net1 is lost"], willHeal: true },
    b: { lost: ["net1 is lost"], willHeal: false },
  });
  void lost.check();
  await new Promise(setImmediate);
  expect([lost.count, healed]).toEqual([2, ["a"]]);
  expect(lost.problems().map(({ pod }) => pod)).toEqual(["default/b"]);
});

test("a look that takes long delays no other pod's, and is not repeated meanwhile", async () => {
  const slow = Array.from({ length: 20 }, (_, i) => `slow-${i}`);
  const gates = slow.map(() => Promise.withResolvers<Found>());
  const { lost, looks, time } = makeNode({
    ...Object.fromEntries(slow.map((name, i) => [name, gates[i]?.promise as Promise<Found>])),
    ...{ a: intact, b: intact },
  });
  const first = lost.check();
  await new Promise(setImmediate);
  // As many as are looked into at a time.
  expect(looks).toEqual(slow.slice(0, 8));
  for (const { resolve } of gates) {
    time.ms += 11_000;
    resolve(intact);
    await new Promise(setImmediate);
  }
  await first;
  looks.length = 0;
  await lost.check();
  expect(looks.slice(0, 2)).toEqual(["a", "b"]);
});

test("what was found in a pod is no longer told once its networks have changed", async () => {
  const found: Record<string, Found> = { a: { lost: ["net1 is lost"], willHeal: false } };
  const { lost, pods, looks } = makeNode(found);
  await lost.check();
  found.a = intact;
  lost.lookAgain(pods[0] as Pod);
  expect([lost.count, lost.problems()]).toEqual([0, []]);
  await new Promise(setImmediate);
  expect(looks).toEqual(["a", "a"]);
});

test("no look begins when plexusd stops", async () => {
  const { lost, looks, tasks } = makeNode({ a: intact });
  tasks.beginNoMore();
  await lost.check();
  expect(looks).toEqual([]);
});
