import { expect } from "vitest";
import { bridge, chained, ptp } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { nodeBinary } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";

const portmap = { type: "portmap", capabilities: { portMappings: true }, snat: true };

let client: TestPod;

test.beforeAll(async ({ node }) => {
  client = await outside(node);
  node.defaultNetwork = chained(bridge("default", 46), portmap);
  await node.nad("mapped", chained(ptp("mapped", 47), portmap));
  await node.nad("same-name", chained(ptp("default", 48), portmap));
});

/** A TCP server that answers with its name. */
const server = `require("node:net").createServer((s) => s.end("hello from " + process.argv[1])).listen(80, "0.0.0.0", () => console.log("up"))`;
const request = `
const socket = require("node:net").connect(Number(process.argv[2]), process.argv[1]);
socket.pipe(process.stdout);
socket.on("error", (e) => { console.log(e.code); process.exit(1); });
socket.setTimeout(5000, () => { console.log("TIMEOUT"); process.exit(1); });`;

async function fetch(from: TestPod, address: string, port: number): Promise<string> {
  return String((await from.try(nodeBinary(), "-e", request, address, String(port))).stdout);
}

async function served(port: number, name = "web"): Promise<void> {
  await waitUntil(
    `host port ${port} leads to the pod`,
    async () => (await fetch(client, "192.0.2.1", port)) === `hello from ${name}`,
  );
}

/** A namespace that reaches the node from outside, through `out0` 192.0.2.1. */
async function outside(node: PlexusNode): Promise<TestPod> {
  const pod = await node.pod("outside");
  const links = `
    ip link add out0 type veth peer name uplink netns ${pod.netns}
    ip address add 192.0.2.1/24 dev out0
    ip link set out0 up`;
  await node.lab.run("sh", "-ec", links);
  await pod.run("sh", "-ec", "ip address add 192.0.2.2/24 dev uplink; ip link set uplink up");
  return pod;
}

test("a connection to the host port reaches the pod over the secondary and over the default network [N-4.1.2.1.7a] [N-4.1.2.1.7.2a]", async ({
  node,
}) => {
  const networks = [{ name: "mapped", portMappings: [{ hostPort: 8080, containerPort: 80 }] }];
  const pod = await node.pod("web", { networks });
  const runtimeConfig = { portMappings: [{ hostPort: 9090, containerPort: 80, protocol: "tcp" }] };
  const cycle = async (probe: () => Promise<void>): Promise<void> => {
    await pod.mustAdd({ runtimeConfig });
    await pod.run("ip", "route", "add", "192.0.2.0/24", "via", "10.46.0.1");
    await probe();
    await pod.mustDel({ runtimeConfig });
  };
  await cycle(async () => {});
  const before = await node.hostState();
  await cycle(async () => {
    await using _server = await pod.startProgram(nodeBinary(), "-e", server, pod.name);
    await served(9090);
    await pod.run("ip", "route", "replace", "192.0.2.0/24", "via", "10.47.0.1");
    await served(8080);
    expect(await fetch(client, "192.0.2.1", 8081)).toBe("ECONNREFUSED");
  });
  expect(await node.changesSince(before)).toEqual([]);
  expect(await fetch(client, "192.0.2.1", 8080)).toBe("ECONNREFUSED");
});

test("a host port works beside a secondary network whose configuration has the default network's name", async ({
  node,
}) => {
  const pod = await node.pod("web-2", { networks: [{ name: "same-name" }] });
  const runtimeConfig = { portMappings: [{ hostPort: 9091, containerPort: 80, protocol: "tcp" }] };
  await pod.mustAdd({ runtimeConfig });
  await pod.run("ip", "route", "add", "192.0.2.0/24", "via", "10.46.0.1");
  await using _server = await pod.startProgram(nodeBinary(), "-e", server, pod.name);
  await served(9091, pod.name);
  await pod.mustDel({ runtimeConfig });
  expect(await fetch(client, "192.0.2.1", 9091)).toBe("ECONNREFUSED");
});
