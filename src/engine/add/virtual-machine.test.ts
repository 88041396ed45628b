import { expect, test } from "vitest";
import { EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { exited } from "#engine/testing/fake-plugins.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/** What KubeVirt 1.9 writes for a bridge with a MAC, and for the plugin of a network binding. */
const elements = [
  { name: "lan", namespace: "vms", mac: "02:00:00:00:00:01", interface: "pod3c1f8e2b9a7" },
  { name: "passt", namespace: "default", "cni-args": { logicNetworkName: "podnet" } },
];

function labOfVm(strictness: "standard" | "multus"): EngineLab {
  const lab = new EngineLab({ config: { strictness } });
  const annotations = { [networksAnnotation]: JSON.stringify(elements) };
  lab.source.addPod({ namespace: "vms", name: "vm", annotations });
  lab.source.addNad("vms/lan", network("lan", "bridge"));
  lab.source.addNad("default/passt", network("passt", "cni-passt-binding-plugin"));
  // It sets sysctls of the namespace, and has no interface.
  const printed = exited(0, { cniVersion: "1.0.0", dns: {} });
  lab.plugins.script("cni-passt-binding-plugin ADD", printed);
  return lab;
}

test("a virtual machine's pod gets a binding's plugin with its cni-args, and no interface for it", async () => {
  const lab = labOfVm("multus");
  expect(await lab.add({ pod: "vms/vm" })).toMatchObject({ exitCode: 0 });
  const [bridge] = lab.plugins.of("bridge", "ADD");
  expect(bridge?.ifName).toBe("pod3c1f8e2b9a7");
  expect(bridge?.env.CNI_ARGS).toContain("MAC=02:00:00:00:00:01");
  const [binding] = lab.plugins.of("cni-passt-binding-plugin", "ADD");
  expect(binding?.conf.args).toEqual({ cni: { logicNetworkName: "podnet" } });
  const status = lab.publisher.status("vms/vm");
  expect(status).toMatchObject([
    { default: true, interface: "eth0" },
    { name: "vms/lan", interface: "pod3c1f8e2b9a7" },
    { name: "default/passt" },
  ]);
  expect(await lab.check({ pod: "vms/vm" })).toMatchObject({ exitCode: 0 });
  expect(await lab.del({ pod: "vms/vm" })).toMatchObject({ exitCode: 0 });
  expect(lab.kernel.link(netns, "pod3c1f8e2b9a7")).toBeUndefined();
});

test("a virtual machine's MAC needs the capability, unless Plexus is as lenient as Multus", async () => {
  const lab = labOfVm("standard");
  expect((await lab.add({ pod: "vms/vm" })).json).toMatchObject({ code: 100 });
});
