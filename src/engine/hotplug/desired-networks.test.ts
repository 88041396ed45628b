import { expect, test } from "vitest";
import { type EngineLab, network } from "#engine/testing/engine-lab.ts";
import { defaultNetworkAnnotation } from "#npwg/selection/selection.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

/** A pod with the default network `kube-system/main`, and `kube-system/extra` by configuration. */
function configuredPod(annotation: string, systemNamespaces: string[] = []): Promise<HotPlugLab> {
  const prepare = ({ source }: EngineLab): void => {
    for (const name of ["main", "extra"])
      source.addNad(`kube-system/${name}`, network(name, "ptp"));
  };
  const config = { clusterNetwork: "main", defaultNetworks: ["extra"], systemNamespaces };
  return hotPlugLab(annotation, {}, { conf: {}, config, prepare });
}

const main = "eth0 kube-system/main";
const extra = "x1 kube-system/extra";

test.each([
  { namespace: "another", systemNamespaces: [], left: [main, extra] },
  { namespace: "a system", systemNamespaces: ["default"], left: [main] },
])("a pod of $namespace namespace keeps $left [H-29]", async ({ systemNamespaces, left }) => {
  const pod = await configuredPod("kube-system/extra@x1", systemNamespaces);
  expect(await pod.edit("")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(left);
  expect(pod.newEvents().join()).not.toMatch(/NotManaged/);
});

test("a default-network annotation that names the present default network is no edit", async () => {
  const pod = await configuredPod("");
  pod.state = { annotations: { [defaultNetworkAnnotation]: "main" } };
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.newEvents()).toEqual([]);
});
