import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { netns, sandbox } from "#engine/testing/engine-lab.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const ranges = ["10.0.0.0/16", "10.96.0.0/12", "192.0.2.7/32"];
const routes = ranges.map((each) => `${each} via 10.0.0.254 dev eth0`);

/** A running pod that wants to keep the cluster. */
async function labOf(annotation: string): Promise<HotPlugLab> {
  return await hotPlugLab(annotation, undefined, {
    config: { clusterRoutes: ["10.0.0.0/16"] },
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

test("hotPlug() keeps the cluster before it plugs the first network, and after the last", async () => {
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
  expect(await recorded(pod)).toEqual(ranges);
  await pod.edit("b");
  expect(kernel.keptRoutes(netns)).toEqual(routes);
  expect(await pod.edit("")).toMatchObject({ state: "settled" });
  expect(kernel.keptRoutes(netns)).toEqual(routes);
  expect(await recorded(pod)).toEqual(ranges);
});

test("hotPlug() removes no route when ServiceCIDRs or the configured ranges are gone", async () => {
  const pod = await labOf("a");
  pod.lab.source.ranges = { node: [] };
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  pod.lab.config = { ...pod.lab.config, clusterRoutes: [] };
  await pod.edit("a");
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  expect(pod.lab.kernel.keptRoutes(netns)).toEqual(routes);
  expect(await recorded(pod)).toEqual(ranges);
});

test("hotPlug() plugs nothing while the cluster's ranges are not known", async () => {
  const pod = await labOf("");
  pod.lab.source.clusterRanges = async () => {
    throw new CniError("ApiUnavailable", "no answer");
  };
  const { operations } = await pod.edit("a");
  expect(operations[0]?.error?.message).toContain("no answer");
  expect(pod.lab.plugins.log("ADD")).toEqual([]);
  expect(await pod.recorded()).toEqual(["eth0 default-net"]);
});
