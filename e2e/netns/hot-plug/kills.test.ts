import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SeenRequest } from "#kube/testing/requests.ts";
import type { Script } from "#kube/testing/responses.ts";
import type { JsonObject } from "#lib/json.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

/* plexusd and the agent are killed at each step of a change [H-41]: before and after each plugin, also the IPAM plugin. */

const net1 = (name: string): object[] => [{ name, interface: "net1" }];

/** `steps`: before and after bridge and host-local, for each network that is plugged or unplugged. */
const changes = [
  { what: "plug", from: "front", to: "front,back", result: ["net1 front", "net2 back"], steps: 4 },
  { what: "unplug", from: "front,back", to: "front", result: ["net1 front"], steps: 4 },
  { what: "swap", from: net1("front"), to: net1("back"), result: ["net1 back"], steps: 8 },
];
const victims = ["plexusd", "agent"] as const;
const kills = victims.flatMap((victim) => changes.map((change) => ({ ...change, victim })));

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create();
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test.for(kills)(
    "$victim is killed at any step of a $what: the next one completes it, and DEL leaves nothing",
    async ({ victim, what, from, to, result, steps }) => {
      for (let step = 1; step <= steps; step++) {
        const pod = await host.pod(`${victim}-${what}-${step}`, from);
        await host.strike(step, victim);
        pod.edit(to);
        await waitUntil(`step ${step} is reached`, () => host.hasStruck);
        await host.repair(victim);
        await pod.becomes(...result);
        await pod.sandbox.mustDel();
        expect(await host.left(), `after step ${step}`).toEqual([]);
      }
    },
  );

  // The DEL waits for a minute, until the shim gives plexusd up.
  test.for(["completes it later", "attaches nothing if a DEL has come meanwhile"] as const)(
    "plexusd that is suspended in a swap %s",
    async (outcome) => {
      const isDeleted = outcome.startsWith("attaches nothing");
      const pod = await host.pod(`suspended-${isDeleted}`, net1("front"));
      const before = pod.shown;
      await host.strike(1, "hold");
      pod.edit(net1("back"));
      await waitUntil("the first plugin begins", () => host.hasStruck);
      host.signalPlexusd("SIGSTOP");
      await host.release();
      if (isDeleted) {
        await pod.sandbox.mustDel();
        expect(await host.left()).toEqual([]);
      }
      host.signalPlexusd("SIGCONT");
      if (!isDeleted) await pod.becomes("net1 back");
      // plexusd serves this pod after what it had begun.
      const next = await host.pod(`after-${isDeleted}`, net1("front"));
      next.edit(net1("back"));
      await next.becomes("net1 back");
      if (isDeleted) expect(pod.shown).toEqual(before);
      else await pod.sandbox.mustDel();
      await next.sandbox.mustDel();
      expect(await host.left()).toEqual([]);
    },
  );

  test("plexusd that is terminated leaves a plugin that hangs to its successor", async () => {
    const pod = await host.pod("terminated", "front");
    await host.strike(2, "hold");
    pod.edit("front,back");
    await waitUntil("the plugin has begun", () => host.hasStruck);
    const startedAt = performance.now();
    await host.stopPlexusd("SIGTERM");
    // The grace period of deploy/base/daemonset.yaml.
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    await host.startPlexusd();
    await host.release();
    await pod.becomes("net1 front", "net2 back");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("plexusd is killed when the sandbox is locked, but nothing is recorded", async () => {
    const pod = await host.pod("locked", "front");
    const isLate = ({ path }: SeenRequest): boolean => path.endsWith("/late");
    host.api.script({ when: isLate, answer: "hang" });
    host.api.seen.length = 0;
    pod.edit("front,late");
    await waitUntil("plexusd asks for the definition", () => host.api.seen.some(isLate));
    expect(existsSync(join(host.node.stateDir, `${pod.sandbox.containerId}.lock`))).toBe(true);
    await host.stopPlexusd();
    host.api.put("network-attachment-definitions", nad("late", bridge("back", 22)) as JsonObject);
    await host.startPlexusd();
    await pod.becomes("net1 front", "net2 late");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("plexusd is killed before it has published the status of what it plugged", async () => {
    const pod = await host.pod("unpublished", "front");
    const isPatch = ({ method, path }: SeenRequest): boolean =>
      method === "PATCH" && path.includes("/pods/unpublished");
    const outage: Script = { when: isPatch, times: Number.POSITIVE_INFINITY, answer: "hang" };
    host.api.script(outage);
    host.api.seen.length = 0;
    pod.edit("front,back");
    await waitUntil("plexusd publishes the status", () => host.api.seen.some(isPatch));
    await host.stopPlexusd();
    expect(pod.shown).toEqual(["eth0 main", "net1 front"]);
    expect(Object.keys(await pod.sandbox.links())).toContain("net2");
    outage.times = 0;
    await host.startPlexusd();
    await pod.becomes("net1 front", "net2 back");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });
});
