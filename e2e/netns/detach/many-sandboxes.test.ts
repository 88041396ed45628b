import { expect } from "vitest";
import { bridge, chained, macvlan, ptp } from "../../support/networks.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

const portmap = { type: "portmap", capabilities: { portMappings: true } };

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = chained(ptp("default", 80, { ipMasq: true }), portmap, {
    type: "firewall",
  });
  await node.nad("macvlan", macvlan("macvlan", 81));
  await node.nad("bridge", bridge("bridge", 82));
});

const mapping = (hostPort: number): object => ({
  portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }],
});

test("ten cycles of ADD and DEL with three networks leave the host unchanged", async ({ node }) => {
  const pod = await node.pod("cycled", { networks: "macvlan,bridge" });
  const cycle = async (): Promise<void> => {
    await pod.mustAdd({ runtimeConfig: mapping(8080) });
    await pod.mustDel({ runtimeConfig: mapping(8080) });
  };
  await cycle();
  const before = await node.hostState();
  for (let n = 0; n < 10; n++) await cycle();
  expect(await node.changesSince(before)).toEqual([]);
  expect(await pod.links()).toEqual({});
});

test("20 parallel ADDs give each sandbox its addresses and status; 20 parallel DELs leave nothing", {
  timeout: 600_000,
}, async ({ node }) => {
  const pods: TestPod[] = [];
  for (let n = 0; n < 20; n++)
    pods.push(await node.pod(`many-${n}`, { networks: "macvlan,bridge" }));
  const before = await node.hostState();
  await Promise.all(pods.map((pod, n) => pod.mustAdd({ runtimeConfig: mapping(9000 + n) })));
  const addresses = new Set<unknown>();
  for (const pod of pods) {
    const status = await pod.status();
    expect(status.map((entry) => entry.interface)).toEqual(["eth0", "net1", "net2"]);
    for (const entry of status) {
      expect(await pod.addresses(String(entry.interface))).toEqual([
        `${(entry.ips as string[])[0]}/24`,
      ]);
      addresses.add((entry.ips as string[])[0]);
    }
  }
  expect(addresses.size).toBe(60);
  const [first, last] = [pods[0] as TestPod, pods[19] as TestPod];
  for (const ifName of ["eth0", "net1", "net2"]) {
    await first.ping((await last.addresses(ifName))[0]?.split("/")[0] ?? "");
  }
  await Promise.all(pods.map((pod) => pod.mustDel()));
  expect(await node.changesSince(before)).toEqual([]);
});
