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
  });
  return { lost, healed, looks, logger, pods, tasks };
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

test("as many pods as the agent's share allows are looked into at a time, and none twice", async () => {
  const gate = Promise.withResolvers<Found>();
  const names = Array.from({ length: 20 }, (_, i) => `slow-${i}`);
  const { lost, looks } = makeNode(Object.fromEntries(names.map((name) => [name, gate.promise])));
  const checks = [lost.check(), lost.check()];
  await new Promise(setImmediate);
  expect(looks).toEqual(names.slice(0, 8));
  gate.resolve(intact);
  await Promise.all(checks);
  expect(looks).toEqual(names);
});

test("a pod whose networks have changed is looked into at once", async () => {
  const { lost, pods, looks } = makeNode({ a: intact });
  void lost.look(pods[0] as Pod);
  await new Promise(setImmediate);
  expect(looks).toEqual(["a"]);
});

test("no look begins when plexusd stops", async () => {
  const { lost, looks, tasks } = makeNode({ a: intact });
  tasks.beginNoMore();
  await lost.check();
  expect(looks).toEqual([]);
});
