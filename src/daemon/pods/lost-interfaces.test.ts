import { expect, test } from "vitest";
import type { Inspection } from "#engine/hotplug/inspection/heal.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { noSandboxHosts } from "#engine/ports/empty-ports.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { AgentTasks } from "./agent-tasks.ts";
import { LostInterfaces } from "./lost-interfaces.ts";

type Found = Pick<Inspection, "willHeal"> | Error;

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
        return { lost: [], willHeal: its?.willHeal === true };
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

const intact = { willHeal: false };

test("all pods are looked into, whatever happens to one of them", async () => {
  const { lost, looks, healed, logger } = makeNode({
    a: intact,
    busy: new SandboxUnavailableError("busy", "another operation runs"),
    broken: new Error("the record is damaged"),
    b: intact,
  });
  await lost.check();
  expect([looks, healed]).toEqual([["a", "busy", "broken", "b"], []]);
  expect(logger.at("warn")).toEqual(["cannot look for lost interfaces"]);
});

test("a pod whose network is to be attached again does not wait for looks into others [H-39]", async () => {
  const { lost, healed } = makeNode({
    ...{ slow: new Promise(() => undefined), a: { willHeal: true }, b: intact },
  });
  void lost.check();
  await new Promise(setImmediate);
  expect(healed).toEqual(["a"]);
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

test("a pod whose networks have changed is looked into at once", async () => {
  const { lost, pods, looks } = makeNode({ a: intact });
  lost.lookAgain(pods[0] as Pod);
  await new Promise(setImmediate);
  expect(looks).toEqual(["a"]);
});

test("no look begins when plexusd stops", async () => {
  const { lost, looks, tasks } = makeNode({ a: intact });
  tasks.beginNoMore();
  await lost.check();
  expect(looks).toEqual([]);
});
