import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { PortMapping } from "#npwg/selection/network-selection.ts";
import { chooseHostPorts, probeHostPort } from "./host-ports.ts";

const web = { containerPort: 80, protocol: "tcp", hostPort: 8000, hostPortEnd: 8003 } as const;
const free = async (port: number): Promise<number> => port || 40_000;

test("ports of the same number do not collide across protocols and addresses", async () => {
  const other = { hostPort: 8000, containerPort: 1 } as const;
  const choose = async (taken: readonly PortMapping[], hostIP?: string) => {
    const port = { ...web, ...(hostIP === undefined ? {} : { hostIP }) };
    const owned = taken.map((mapping) => ({ mapping, endpointId: "e1", networkId: "n1" }));
    const options = { networkId: "n1", taken: owned, probe: free };
    return (await chooseHostPorts([port], options)).portMappings[0]?.hostPort;
  };
  expect(await choose([{ ...other, protocol: "udp" }])).toBe(8000);
  expect(await choose([{ ...other, protocol: "tcp" }])).toBe(8001);
  expect(await choose([{ ...other, protocol: "tcp", hostIP: "10.0.0.1" }], "10.0.0.2")).toBe(8000);
  expect(await choose([{ ...other, protocol: "tcp", hostIP: "10.0.0.1" }], "10.0.0.1")).toBe(8001);
  expect(await choose([{ ...other, protocol: "tcp", hostIP: "0.0.0.0" }], "10.0.0.1")).toBe(8001);
});

test("ports of one container do not collide with each other", async () => {
  const { portMappings } = await chooseHostPorts([web, { ...web, containerPort: 81 }], {
    networkId: "n1",
    taken: [],
    probe: free,
  });
  expect(portMappings.map(({ hostPort }) => hostPort)).toEqual([8000, 8001]);
});

test("a port that a process holds is skipped", async () => {
  const probe = async (port: number): Promise<number | undefined> =>
    port < 8002 ? undefined : port;
  const chosen = await chooseHostPorts([web], { networkId: "n1", taken: [], probe });
  const portMappings = [{ hostPort: 8002, containerPort: 80, protocol: "tcp" }];
  expect(chosen).toEqual({ portMappings, sharesPortsWith: [] });
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
