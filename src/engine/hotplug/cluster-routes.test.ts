import { expect, test } from "vitest";
import { netns, sandbox } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const routes = ["10.96.0.0/12 via 10.0.0.254 dev eth0", "192.0.2.7/32 via 10.0.0.254 dev eth0"];

/** A running pod that wants to keep the cluster. */
async function labOf(annotation: string): Promise<HotPlugLab> {
  return await hotPlugLab(annotation, undefined, {
    config: { clusterRoutes: "keep" },
    prepare: ({ plugins, kernel, source }) => {
      source.ranges = { services: ["10.96.0.0/12"], node: ["192.0.2.7/32"] };
      plugins.script("ptp ADD", (call) => {
        const outcome = plugins.work(call);
        kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.0.0.254" });
        return outcome;
      });
    },
  });
}

async function recorded({ lab }: HotPlugLab): Promise<readonly string[] | undefined> {
  return (await lab.records.load(sandbox))?.record.clusterRoutes;
}

test("hotPlug() keeps the cluster before it plugs the first network, and leaves no route after the last", async () => {
  const pod = await labOf("");
  const { kernel, plugins } = pod.lab;
  expect(kernel.keptRoutes(netns)).toEqual([]);
  let before: string[] = [];
  plugins.script("bridge ADD", (call) => {
    before = kernel.keptRoutes(netns);
    return plugins.work(call);
  });
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  expect(before).toEqual(routes);
  expect(await recorded(pod)).toEqual(["10.96.0.0/12", "192.0.2.7/32"]);
  await pod.edit("b");
  expect(kernel.keptRoutes(netns)).toEqual(routes);
  expect(await pod.edit("")).toMatchObject({ state: "settled" });
  expect(kernel.keptRoutes(netns)).toEqual([]);
  expect(await recorded(pod)).toEqual([]);
});

test("hotPlug() leaves no routes of a network that cannot be attached", async () => {
  const pod = await labOf("");
  pod.lab.plugins.script("bridge ADD", () => failed(50, "no VLAN"));
  expect(await pod.edit("a")).toMatchObject({ state: "failed" });
  expect(pod.lab.kernel.keptRoutes(netns)).toEqual([]);
  expect(await recorded(pod)).toEqual([]);
});

test("hotPlug() plugs nothing while the cluster's ranges are not known", async () => {
  const pod = await labOf("");
  pod.lab.source.ranges = undefined;
  const { operations } = await pod.edit("a");
  expect(operations[0]?.error?.message).toContain("the API server has no ServiceCIDRs");
  expect(pod.lab.plugins.log("ADD")).toEqual([]);
  expect(await pod.recorded()).toEqual(["eth0 default-net"]);
});
