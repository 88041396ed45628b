import { expect } from "vitest";
import { chained, ptp } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { nodeBinary } from "../../support/paths.ts";

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = ptp("default", 50);
  const bandwidth = { type: "bandwidth", capabilities: { bandwidth: true } };
  await node.nad("shaped", chained(ptp("shaped", 51), bandwidth));
});

const rate = 8_000_000;
const bytes = 2_000_000;

/** Sends bytes to a sink in the pod's namespace and prints the seconds until all had arrived. */
const sink = `
require("node:net").createServer({ allowHalfOpen: true }, (socket) => {
  socket.resume().on("end", () => socket.end("all"));
}).listen(5001, "0.0.0.0", () => console.log("up"));`;
const source = `
const { performance } = require("node:perf_hooks");
const socket = require("node:net").connect(5001, process.argv[1]);
let began;
socket.on("connect", () => { began = performance.now(); socket.end(Buffer.alloc(Number(process.argv[2]))); });
socket.resume().on("end", () => console.log((performance.now() - began) / 1000));`;

/** How long it takes until everything has arrived in the pod. */
async function transferSeconds(
  { lab }: PlexusNode,
  pod: TestPod,
  address: string,
): Promise<number> {
  await using _sink = await pod.startProgram(nodeBinary(), "-e", sink);
  return Number(await lab.run(nodeBinary(), "-e", source, address, String(bytes)));
}

test("tc shows the requested rates, and a transfer into the pod is limited to its rate [N-4.1.2.1.8a] [N-4.1.2.1.8.2a]", async ({
  node,
}) => {
  const limits = {
    ingressRate: rate,
    ingressBurst: 400_000,
    egressRate: rate / 2,
    egressBurst: 400_000,
  };
  const pod = await node.pod("limited", { networks: [{ name: "shaped", bandwidth: limits }] });
  await pod.mustAdd();
  await pod.mustDel();
  const before = await node.hostState();
  await pod.mustAdd();
  const queues = await node.lab.run("tc", "qdisc", "show");
  expect(queues).toMatch(/tbf .* dev veth\w+ root .* rate 8Mbit/);
  expect(queues).toMatch(/tbf .* dev bwp\w+ root .* rate 4Mbit/);
  const address = (await pod.addresses("net1"))[0]?.split("/")[0] ?? "";
  const seconds = await transferSeconds(node, pod, address);
  const ideal = (bytes * 8 - limits.ingressBurst) / rate;
  expect(seconds).toBeGreaterThan(0.6 * ideal);
  await pod.mustDel();
  expect(await node.changesSince(before)).toEqual([]);
});

test("a rate without a burst gets a valid default burst [N-4.1.2.1.8.2c]", async ({ node }) => {
  const pod = await node.pod("no-burst", {
    networks: [{ name: "shaped", bandwidth: { ingressRate: 1e6 } }],
  });
  await pod.mustAdd();
  expect(await node.lab.run("tc", "qdisc", "show")).toMatch(/tbf .* rate 1Mbit burst \d+/);
  await pod.mustDel();
});
