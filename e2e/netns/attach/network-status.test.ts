import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { list } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import type { ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { scriptedTest as test } from "../../support/node/test.ts";

/** The status that comes of what `alpha` printed. */
async function statusOf(
  { node, plugins }: { node: PlexusNode; plugins: ScriptedPlugins },
  result: object,
): Promise<Record<string, unknown>[]> {
  const { cniVersion } = result as { cniVersion: string };
  await node.nad("scripted", { ...list("net-scripted", { type: "alpha" }), cniVersion });
  await plugins.script("alpha", "ADD", { stdout: JSON.stringify(result) });
  const pod = await node.newPod({ networks: "scripted" });
  await pod.mustAdd();
  const status = (await pod.status()) ?? [];
  await pod.mustDel();
  expect(await pod.status(), "gone with the pod").toBeUndefined();
  return status;
}

const main = {
  name: "default",
  interface: "eth0",
  mac: "02:00:00:00:00:01",
  default: true,
  dns: {},
};
const dns = {
  nameservers: ["10.9.0.1", "fd00:9::1"],
  domain: "a.b",
  search: ["a.b", "b"],
  options: ["ndots:5"],
};

test("the default network alone has its entry [N-5.2a] [N-5.3.1] [N-5.3.5a] [N-5b]", async ({
  node,
}) => {
  const pod = await node.pod("alone");
  await pod.mustAdd();
  expect(await pod.status()).toEqual([main]);
  await pod.mustDel();
});

test.for(["1.0.0", "1.1.0", "0.4.0", "0.3.0"])(
  "interface, ips, mac, dns and gateways of a result of %s [N-5a] [N-5.1.1a] [N-5.3.2.1a] [N-5.3.3.1a] [N-5.3.4] [N-5.3.4.1] [N-5.3.5b] [N-5.3.6a]",
  async (cniVersion, { node, plugins }) => {
    const version = cniVersion < "1.0.0" ? { version: "4" } : {};
    const status = await statusOf(
      { node, plugins },
      {
        cniVersion,
        interfaces: [
          { name: "veth1", mac: "02:00:00:00:00:0a" },
          {
            name: "@IFNAME@",
            mac: "02:00:00:00:00:0b",
            sandbox: "@NETNS@",
            ...(cniVersion === "1.1.0" ? { mtu: 1450 } : {}),
          },
        ],
        ips: [
          { ...version, address: "10.9.0.1/24", interface: 0 },
          { ...version, address: "10.9.0.7/24", gateway: "10.9.0.1", interface: 1 },
        ],
        routes: [{ dst: "0.0.0.0/0" }],
        dns,
      },
    );
    expect(status).toEqual([
      main,
      {
        name: "default/scripted",
        interface: "net1",
        ips: ["10.9.0.7"],
        mac: "02:00:00:00:00:0b",
        ...(cniVersion === "1.1.0" ? { mtu: 1450 } : {}),
        default: false,
        dns,
        gateway: ["10.9.0.1"],
      },
    ]);
  },
);

test("a result of 0.2.0 gives its addresses and the interface's name [N-5.1.1c] [N-5.3.2.1b] [N-5.3.3.1d]", async ({
  node,
  plugins,
}) => {
  const status = await statusOf(
    { node, plugins },
    {
      cniVersion: "0.2.0",
      ip4: {
        ip: "10.9.0.7/24",
        gateway: "10.9.0.1",
        routes: [{ dst: "0.0.0.0/0", gw: "10.9.0.1" }],
      },
      ip6: { ip: "fd00:9::7/64" },
      dns: { nameservers: ["10.9.0.1"] },
    },
  );
  expect(status[1]).toEqual({
    name: "default/scripted",
    interface: "net1",
    ips: ["10.9.0.7", "fd00:9::7"],
    default: false,
    dns: { nameservers: ["10.9.0.1"] },
    gateway: ["10.9.0.1"],
  });
});

test("without a sandbox interface there are the addresses that belong to none [N-5.3.3.1b]", async ({
  node,
  plugins,
}) => {
  const status = await statusOf(
    { node, plugins },
    {
      cniVersion: "1.0.0",
      interfaces: [{ name: "veth1", mac: "02:00:00:00:00:0a" }],
      ips: [
        { address: "10.9.0.1/24", interface: 0 },
        { address: "10.9.0.7/24" },
        { address: "fd00:9::7/64", interface: -1 },
      ],
    },
  );
  expect(status[1]).toEqual({
    name: "default/scripted",
    ips: ["10.9.0.7", "fd00:9::7"],
    default: false,
    dns: {},
  });
});

test("addresses that name no interface belong to the only one in the sandbox", async ({
  node,
  plugins,
}) => {
  const interfaces = [{ name: "veth1" }, { name: "@IFNAME@", sandbox: "@NETNS@" }];
  const ips = [{ address: "10.9.0.7/24" }, { address: "fd00:9::7/64" }];
  const status = await statusOf({ node, plugins }, { cniVersion: "1.0.0", interfaces, ips });
  expect(status[1]).toMatchObject({ interface: "net1", ips: ["10.9.0.7", "fd00:9::7"] });
});

test("a result with nothing in it has a minimal entry [N-5.1.1b] [N-5.3.3.1c]", async ({
  node,
  plugins,
}) => {
  const status = await statusOf({ node, plugins }, { cniVersion: "1.0.0" });
  expect(status[1]).toEqual({ name: "default/scripted", default: false, dns: {} });
});

test("the interface with the gateway is the default one, as for OVN-Kubernetes' primary user-defined networks [N-5.3.5b]", async ({
  node,
  plugins,
}) => {
  const two = {
    cniVersion: "1.0.0",
    interfaces: ["@IFNAME@", "ovn-udn1"].map((name) => ({ name, sandbox: "@NETNS@" })),
    ips: [
      { address: "10.244.1.6/24", interface: 0 },
      { address: "10.20.1.3/24", gateway: "10.20.1.1", interface: 1 },
    ],
  };
  await plugins.script("default-second", "ADD", { stdout: JSON.stringify(two) });
  const pod = await node.pod("user-defined");
  await pod.mustAdd();
  const status = (await pod.status()) ?? [];
  expect(status.map((entry) => [entry.interface, entry.default])).toEqual([
    ["eth0", false],
    ["ovn-udn1", true],
  ]);
  await pod.mustDel();
});

test("each further sandbox interface has an entry; one entry alone is the default [N-5.3.5b]", async ({
  node,
  plugins,
}) => {
  const two = {
    cniVersion: "1.0.0",
    interfaces: [
      { name: "@IFNAME@", sandbox: "@NETNS@" },
      { name: "second", mac: "02:00:00:00:00:0c", sandbox: "@NETNS@" },
    ],
    ips: [
      { address: "10.9.0.7/24", interface: 0 },
      { address: "10.9.0.8/24", interface: 1 },
    ],
  };
  await plugins.script("default-second", "ADD", { stdout: JSON.stringify(two) });
  const pod = await node.pod("several");
  await pod.mustAdd();
  expect(await pod.status()).toEqual([
    { name: "default", interface: "eth0", ips: ["10.9.0.7"], default: true, dns: {} },
    {
      name: "default",
      interface: "second",
      ips: ["10.9.0.8"],
      mac: "02:00:00:00:00:0c",
      default: false,
      dns: {},
    },
  ]);
  await pod.mustDel();
});

test("the same attachments give the same bytes", async ({ node }) => {
  const read = (): Promise<string> =>
    readFile(`${node.manifestsDir}/.status/default/bytes.json`, "utf8");
  const pod = await node.pod("bytes", { networks: "alpha,beta" });
  await pod.mustAdd();
  const first = await read();
  await pod.mustDel();
  await pod.mustAdd();
  expect(await read()).toBe(first);
  expect(first).toMatch(/^\[\{\n {4}"name": "default",\n/);
  await pod.mustDel();
});
