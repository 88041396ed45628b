import { expect, test } from "vitest";
import type { Finding, Probe } from "./probe.ts";
import { report, reportText } from "./report.ts";
import { type TestPod, testPods } from "./test-pods.ts";

function pod(name: string, node: string, ...addresses: string[]): TestPod {
  return { name, node, interface: "net1", mac: "02:00:00:00:00:01", addresses };
}

const pods = [pod("a", "node-1", "10.1.0.1"), pod("b", "node-2", "10.1.0.2", "fd00::2")];

function probe(from: string, to: string, finding: Probe["finding"] = "ok"): Probe {
  const detail = finding === "ok" ? "" : "seen";
  return { from, to, address: "10.1.0.2", mtu: 1500, finding, detail };
}

function reportOf(pods: readonly TestPod[], probes: readonly Probe[]) {
  return report({ network: "shop/lan", pods, probes, notReady: [] });
}

test("report() passes if all pods reach each other, and has a line for each probe", () => {
  const passed = reportOf(pods, [probe("a", "b"), probe("b", "a")]);
  expect(passed.passed).toBe(true);
  expect(reportText(passed)).toEqual([
    "POD  NODE    INTERFACE  MAC                ADDRESSES",
    "a    node-1  net1       02:00:00:00:00:01  10.1.0.1",
    "b    node-2  net1       02:00:00:00:00:01  10.1.0.2,fd00::2",
    "",
    "FROM  TO  ADDRESS   MTU   RESULT",
    "a     b   10.1.0.2  1500  ok",
    "b     a   10.1.0.2  1500  ok",
    "",
    "network shop/lan: ok, 2 of 2 tests passed between 2 pods on 2 nodes",
  ]);
});

test.each<Finding>([
  "DuplicateAddress",
  "NoAnswer",
  "OtherHostAnswered",
  "OtherInterface",
  "PacketTooBig",
])("report() fails with %s, and says once what to do", (finding) => {
  const failed = reportOf(pods, [
    ...[probe("a", "b", finding), probe("b", "a", finding)],
    probe("a", "b"),
  ]);
  expect(failed.passed).toBe(false);
  const lines = reportText(failed);
  expect(lines).toContain(`a     b   10.1.0.2  1500  ${finding}: seen`);
  expect(lines).toContain(
    "network shop/lan: PROBLEM, 1 of 3 tests passed between 2 pods on 2 nodes",
  );
  expect(lines.filter((line) => line.startsWith(`${finding}: `))).toHaveLength(1);
});

test("reportText() shows of many probes only the bad ones", () => {
  const probes = Array.from({ length: 40 }, () => probe("a", "b"));
  const lines = reportText(reportOf(pods, [...probes, probe("b", "a", "NoAnswer")]));
  expect(lines.filter((line) => line.includes("10.1.0.2  1500"))).toEqual([
    "b     a   10.1.0.2  1500  NoAnswer: seen",
  ]);
});

test("report() fails with pods without addresses, and with those that are not attached", () => {
  const others = [pod("c", "node-1"), { ...pod("d", "node-1"), interface: "", mac: "" }];
  const failed = reportOf([...pods, ...others], [probe("a", "b"), probe("b", "a")]);
  expect(failed.passed).toBe(false);
  const lines = reportText(failed);
  expect(lines).toContain("d    node-1  -          -                  -");
  expect(lines.slice(-2)).toEqual([
    expect.stringMatching(/^NoAddress: /),
    expect.stringMatching(/^NotAttached: /),
  ]);
});

test("report() does not pass without a probe, and says if nothing was tested between nodes", () => {
  expect(reportOf([pod("a", "node-1", "10.1.0.1")], []).passed).toBe(false);
  const near = [pod("a", "node-1", "10.1.0.1"), pod("b", "node-1", "10.1.0.2")];
  const passed = reportOf(near, [probe("a", "b"), probe("b", "a")]);
  expect(passed.passed).toBe(true);
  expect(reportText(passed).at(-1)).toBe(
    "network shop/lan: ok, 2 of 2 tests passed between 2 pods on one node, so none between nodes",
  );
});

test("testPods() takes the network's interface, not the default network's, from what Plexus or Multus wrote", () => {
  const status = [
    { name: "shop/lan", interface: "eth0", ips: ["10.9.0.1"], default: true, dns: {} },
    { name: "shop/red", interface: "net1", ips: ["10.8.0.1"], dns: {} },
    { name: "shop/lan", interface: "net2", ips: ["FD00::A"], mac: "02:00:00:00:00:01", dns: {} },
  ];
  const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status, null, 4) };
  const items = [
    { metadata: { name: "a", annotations }, spec: { nodeName: "node-1" } },
    { metadata: { name: "b" }, spec: {} },
  ];
  expect(testPods({ items }, "shop/lan")).toEqual([
    { ...pod("a", "node-1", "fd00::a"), interface: "net2" },
    { name: "b", node: "", interface: "", mac: "", addresses: [] },
  ]);
});
