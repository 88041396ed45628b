import { expect } from "vitest";
import { list } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { scriptedTest as test } from "../../support/node/test.ts";

/** Results of ADD that describe interfaces that the kernel does not have. */
const networks = [
  // sriov-cni with a VF that has a user-space driver names an interface, and prints no PCI address.
  {
    name: "sriov",
    result: { cniVersion: "1.0.0", interfaces: [{ name: "@IFNAME@", sandbox: "@NETNS@" }] },
  },
  {
    name: "userspace",
    result: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "@IFNAME@", sandbox: "@NETNS@", mac: "02:00:00:00:00:09" }],
      ips: [{ address: "10.60.0.7/24", interface: 0 }],
    },
  },
  { name: "noop", result: { cniVersion: "1.0.0" } },
] as const;

test.beforeEach(async ({ node, plugins }) => {
  for (const { name, result } of networks) {
    await node.nad(name, list(`net-${name}`, { type: name }));
    await plugins.script(name, "ADD", { stdout: JSON.stringify(result) });
  }
});

test.beforeAll(async ({ plugins }) => {
  await plugins.install(...networks.map(({ name }) => name));
});

test.for(networks)(
  "$name: CHECK right after ADD succeeds, a failing DEL is reported, and each DEL gets the namespace",
  async ({ name }, { node, plugins }) => {
    const pod = await node.newPod({ networks: name });
    await pod.mustAdd();
    await pod.mustCheck();
    await plugins.clear();
    await plugins.script(name, "DEL", errorScript(999, "cmdDel() error obtaining VF ID"));
    expect(errorOf(await pod.del()).msg).toContain("error obtaining VF ID");
    expect(pod.isRecorded).toBe(true);
    await plugins.unscript(name, "DEL");
    await pod.mustDel();
    const dels = (await plugins.executions()).filter(({ type }) => type === name);
    expect(dels.map(({ cni }) => cni.CNI_NETNS)).toEqual(Array(2).fill(`/run/netns/${pod.netns}`));
    expect(pod.isRecorded).toBe(false);
  },
);
