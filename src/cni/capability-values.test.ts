import { expect, test } from "vitest";
import { foldKeys, readBandwidth, readPortMappings } from "./capability-values.ts";

test("readPortMappings() understands containerd's capitalised keys and the specification's", () => {
  const value = [
    { HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "" },
    { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "FD00::1" },
  ];
  expect(readPortMappings(value)).toEqual([
    { hostPort: 8080, containerPort: 80, protocol: "tcp" },
    { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "fd00::1" },
  ]);
  expect(readPortMappings(null)).toEqual([]);
});

test("readBandwidth() understands containerd's capitalised keys and the specification's", () => {
  expect(readBandwidth({ IngressRate: 2048, IngressBurst: 4294967295 })).toEqual({
    ingressRate: 2048,
    ingressBurst: 4294967295,
  });
  expect(readBandwidth({ egressRate: 1, egressBurst: 2 })).toEqual({
    egressRate: 1,
    egressBurst: 2,
  });
});

test.each([
  [{}, "portMappings: must be an array, got an object"],
  [
    [{ HostPort: 70000, ContainerPort: 80, Protocol: "tcp" }],
    "portMappings[0].hostPort: must be at most 65535, got 70000",
  ],
  [
    [{ hostPort: 1, protocol: "icmp" }],
    'portMappings[0].protocol: must be tcp, udp or sctp, got "icmp"; portMappings[0].containerPort: is missing',
  ],
  [
    [{ hostPort: 1, containerPort: 1, protocol: "tcp", hostIP: "x" }],
    'portMappings[0].hostIP: invalid IP address: "x"',
  ],
])("readPortMappings(%j) names the field", (value, problem) => {
  expect(() => readPortMappings(value)).toThrow(
    expect.objectContaining({ code: 7, message: `invalid runtimeConfig: ${problem}` }),
  );
});

test("readBandwidth() names the field", () => {
  expect(() => readBandwidth({ ingressRate: -1 })).toThrow(
    "invalid runtimeConfig: bandwidth.ingressRate: must be a non-negative integer, got -1",
  );
});

test("foldKeys() gives keys in lower case, the last spelling winning", () => {
  expect(foldKeys({ Servers: [1], SERVERS: [2], Subnet: "s" })).toEqual({
    servers: [2],
    subnet: "s",
  });
});
