import { expect } from "vitest";
import { list } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { scriptedTest as test } from "../../support/node/test.ts";

/** What a plugin prints in ADD, and what the kernel has of it: nothing. */
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
  "a DEL of $name that fails stays failed, and its plugin always gets the namespace",
  async ({ name }, { node, plugins }) => {
    const pod = await node.newPod({ networks: name });
    await pod.mustAdd();
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

test.for(networks)(
  "CHECK right after ADD succeeds for $name, of which the kernel has no interface",
  async ({ name }, { node }) => {
    const pod = await node.newPod({ networks: name });
    await pod.mustAdd();
    expect(await pod.check()).toMatchObject({ exitCode: 0 });
    await pod.mustDel();
  },
);

test("CHECK still finds that an interface is gone which the kernel had", async ({
  node,
  plugins,
}) => {
  const interfaces = [{ name: "kept", sandbox: "@NETNS@" }];
  await plugins.script("alpha", "ADD", {
    stdout: JSON.stringify({ cniVersion: "1.0.0", interfaces }),
  });
  const pod = await node.newPod({ networks: "alpha,sriov" });
  const link = (...args: string[]): Promise<string> =>
    node.lab.run("ip", "-n", pod.netns, "link", ...args);
  await link("add", "kept", "type", "veth", "peer", "name", "peer");
  await pod.mustAdd();
  expect(await pod.check()).toMatchObject({ exitCode: 0 });
  await link("del", "kept");
  expect(errorOf(await pod.check()).msg).toBe(
    "network default/alpha (net1): interface kept is gone",
  );
  await pod.mustDel();
});
