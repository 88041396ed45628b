import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { list } from "../../support/networks.ts";
import { scriptedTest as test } from "../../support/node/test.ts";

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

test.for(["1.1.0", "0.3.0"])(
  "network-status has interface, ips, mac, dns and gateways of a result of version %s [N-5a] [N-5.2a] [N-5.1.1a] [N-5.3.2.1a] [N-5.3.3.1a] [N-5.3.4] [N-5.3.4.1] [N-5.3.5b] [N-5.3.6a]",
  async (cniVersion, { node, plugins }) => {
    const version = cniVersion < "1.0.0" ? { version: "4" } : {};
    const mtu = cniVersion === "1.1.0" ? { mtu: 1450 } : {};
    const mac = "02:00:00:00:00:0b";
    const result = {
      cniVersion,
      interfaces: [
        { name: "veth1", mac: "02:00:00:00:00:0a" },
        { name: "@IFNAME@", mac, sandbox: "@NETNS@", ...mtu },
      ],
      ips: [
        { ...version, address: "10.9.0.1/24", interface: 0 },
        { ...version, address: "10.9.0.7/24", gateway: "10.9.0.1", interface: 1 },
      ],
      routes: [{ dst: "0.0.0.0/0" }],
      dns,
    };
    await node.nad("scripted", { ...list("net-scripted", { type: "alpha" }), cniVersion });
    await plugins.script("alpha", "ADD", { stdout: JSON.stringify(result) });
    const pod = await node.newPod({ networks: "scripted" });
    await pod.mustAdd();
    expect(await pod.status()).toEqual([
      main,
      {
        name: "default/scripted",
        interface: "net1",
        ips: ["10.9.0.7"],
        mac,
        ...mtu,
        default: false,
        dns,
        gateway: ["10.9.0.1"],
      },
    ]);
    await pod.mustDel();
    expect(await pod.currentStatus(), "removed with the pod").toBeUndefined();
  },
);

test("the same attachments give the same network-status, byte by byte [N-5b]", async ({ node }) => {
  const read = (): Promise<string> =>
    readFile(`${node.manifestsDir}/.status/default/bytes.json`, "utf8");
  const pod = await node.pod("bytes", { networks: "alpha,beta" });
  await pod.mustAdd();
  await pod.status();
  const first = await read();
  await pod.mustDel();
  await pod.mustAdd();
  await pod.status();
  expect(await read()).toBe(first);
  expect(first).toMatch(/^\[\{\n {4}"name": "default",\n/);
  await pod.mustDel();
});
