import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { chooseHostPorts, probeHostPort } from "./host-ports.ts";

const web = { containerPort: 80, protocol: "tcp", hostPort: 8000, hostPortEnd: 8003 } as const;
const free = async (port: number): Promise<number> => port || 40_000;

test.for([
  ["another protocol", { protocol: "udp" }, undefined, 8000],
  ["any address", { protocol: "tcp" }, undefined, 8001],
  ["another address", { protocol: "tcp", hostIP: "10.0.0.1" }, "10.0.0.2", 8000],
  ["the same address", { protocol: "tcp", hostIP: "10.0.0.1" }, "10.0.0.1", 8001],
  ["all addresses", { protocol: "tcp", hostIP: "0.0.0.0" }, "10.0.0.1", 8001],
] as const)("chooseHostPorts(): port 8000 is taken for %s", async ([, other, hostIP, hostPort]) => {
  const mapping = { hostPort: 8000, containerPort: 1, ...other };
  const taken = [{ mapping, endpointId: "e1", networkId: "n1" }];
  const port = { ...web, ...(hostIP === undefined ? {} : { hostIP }) };
  const chosen = await chooseHostPorts([port], { networkId: "n1", taken, probe: free });
  expect(chosen.portMappings).toMatchObject([{ hostPort }]);
});

test("ports of one container do not collide, and those that a process holds are skipped", async () => {
  const probe = async (port: number): Promise<number | undefined> =>
    port < 8002 ? undefined : port;
  const published = [web, { ...web, containerPort: 81 }];
  expect(await chooseHostPorts(published, { networkId: "n1", taken: [], probe })).toEqual({
    portMappings: [
      { hostPort: 8002, containerPort: 80, protocol: "tcp" },
      { hostPort: 8003, containerPort: 81, protocol: "tcp" },
    ],
    sharesPortsWith: [],
  });
});

test("probeHostPort() detects TCP and UDP ports that processes hold, and finds free ones", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const tcp = { protocol: "tcp", hostIP: "127.0.0.1" } as const;
  expect(await probeHostPort((server.address() as AddressInfo).port, tcp)).toBeUndefined();
  expect(await probeHostPort(0, tcp)).toBeGreaterThan(0);
  const socket = createSocket("udp4").bind(0, "127.0.0.1");
  onTestFinished(() => void socket.close());
  await once(socket, "listening");
  const udp = { protocol: "udp", hostIP: "127.0.0.1" } as const;
  expect(await probeHostPort(socket.address().port, udp)).toBeUndefined();
  expect(await probeHostPort(0, udp)).toBeGreaterThan(0);
  expect(await probeHostPort(0, { protocol: "sctp" })).toBeGreaterThan(0);
});
