import { expect, test } from "vitest";
import type { Inspection } from "#engine/hotplug/inspection/inspector.ts";
import { SandboxUnavailableError } from "#engine/hotplug/sandbox-hosts.ts";
import type { Pod } from "#engine/ports.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { LostInterfaces, type LostInterfacesOptions } from "./lost-interfaces.ts";

/** A node with pods; the map says what is found in each. */
function makeNode(found: Readonly<Record<string, Inspection | Error>>) {
  const logger = new FakeLogger();
  const state = { comparisons: 0 };
  const pods = Object.keys(found).map((name) => ({ name }) as Pod);
  const lost = new LostInterfaces({
    engine: {
      inspect: async ({ name }) => {
        const its = found[name];
        if (its instanceof Error) throw its;
        return its as Inspection;
      },
    },
    nodePods: { list: () => pods },
    hotPlug: { compareAll: async () => void state.comparisons++ },
    logger,
    ...({} as Pick<LostInterfacesOptions, "hosts" | "conf">),
  });
  return { lost, state, logger };
}

test("lost interfaces of all pods are counted, whatever happens to one of them", async () => {
  const { lost, state, logger } = makeNode({
    a: { lost: 2, willHeal: false },
    busy: new SandboxUnavailableError("busy", "another operation runs"),
    broken: new Error("the record is damaged"),
    b: { lost: 1, willHeal: false },
  });
  await lost.check();
  expect([lost.count, state.comparisons]).toEqual([3, 0]);
  expect(logger.at("warn")).toEqual(["cannot look for lost interfaces"]);
});

test("pods are compared with their annotations if a network is to be attached again [H-39]", async () => {
  const { lost, state } = makeNode({ a: { lost: 1, willHeal: true } });
  await lost.check();
  expect([lost.count, state.comparisons]).toEqual([1, 1]);
});
