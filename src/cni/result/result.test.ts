import { expect, test } from "vitest";
import { supportedVersions } from "#cni/versions.ts";
import { formatResult, printResult } from "./format.ts";
import { parseResult } from "./parse.ts";
import type { Result } from "./result.ts";

const parse = (raw: unknown, fallbackVersion = "1.1.0"): Result =>
  parseResult(raw, { fallbackVersion });

const empty = { interfaces: [], ips: [], routes: [] };

test.each([
  [{ cniVersion: "1.0.0" }, "0.4.0", "1.0.0"],
  [{}, "0.4.0", "0.4.0"],
  [{ cniVersion: "" }, "0.3.1", "0.3.1"],
  [{ cniVersion: 3 }, "0.3.1", "0.3.1"],
  [{ CNIVERSION: "0.2.0" }, "1.0.0", "0.2.0"],
  [{}, "", "0.1.0"],
  [null, "1.1.0", "1.1.0"],
])("parseResult(%j) of a network of version %j has version %j", (raw, fallback, cniVersion) => {
  expect(parse(raw, fallback)).toEqual({ cniVersion, ...empty });
});

test("parseResult() reads an IPAM plugin's abbreviated result [R-0.3-06] [R-1.0-33]", () => {
  const raw = {
    cniVersion: "1.0.0",
    ips: [{ address: "10.1.0.5/16", gateway: "10.1.0.1" }],
    routes: [{ dst: "0.0.0.0/0" }],
    dns: { nameservers: ["10.1.0.1"] },
  };
  expect(parse(raw)).toEqual({ ...raw, interfaces: [] });
});

test("parseResult() ignores the case of keys; the last spelling wins", () => {
  const raw = {
    CniVersion: "1.1.0",
    Interfaces: [{ Name: "eth0", MAC: "aa", PciID: "0", socketpath: "/s" }],
    IPs: [{ address: "10.0.0.1/24", ADDRESS: "10.0.0.2/24", Interface: 0 }],
    Routes: [{ DST: "::/0", GW: "FE80::1" }],
    DNS: { Domain: "d", NameServers: ["1.1.1.1"], Search: ["s"], Options: ["o"] },
  };
  expect(parse(raw)).toEqual({
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", mac: "aa", pciID: "0", socketPath: "/s" }],
    ips: [{ address: "10.0.0.2/24", interface: 0 }],
    routes: [{ dst: "::/0", gw: "fe80::1" }],
    dns: { domain: "d", nameservers: ["1.1.1.1"], search: ["s"], options: ["o"] },
  });
});

test("parseResult() omits null, empty and zero values as Go does, but keeps table 0 and scope 0", () => {
  const raw = {
    interfaces: [{ name: "", mac: "", mtu: 0, sandbox: null }],
    ips: [{ address: "10.0.0.1/24", gateway: "", interface: null }],
    routes: [{ dst: "0.0.0.0/0", gw: null, mtu: 0, advmss: 0, priority: 0, table: 0, scope: 0 }],
    dns: { nameservers: [], domain: "" },
  };
  expect(parse(raw)).toEqual({
    cniVersion: "1.1.0",
    interfaces: [{ name: "" }],
    ips: [{ address: "10.0.0.1/24" }],
    routes: [{ dst: "0.0.0.0/0", table: 0, scope: 0 }],
  });
  expect(parse({ interfaces: null, ips: null, routes: null, dns: null })).toEqual({
    cniVersion: "1.1.0",
    ...empty,
  });
});

test("parseResult() treats a negative interface index as none, as the CNI upgrade guide says", () => {
  const raw = { interfaces: [{ name: "a" }], ips: [{ address: "10.0.0.1/24", interface: -1 }] };
  expect(parse(raw).ips).toEqual([{ address: "10.0.0.1/24" }]);
});

test.each([
  [{ ips: [{ address: "10.0.0.5" }] }, 'ips[0].address: invalid CIDR address: "10.0.0.5"'],
  [{ ips: [{ address: 5 }] }, "ips[0].address: must be a string, got 5"],
  [{ ips: [{}] }, "ips[0].address: is missing"],
  [{ ips: [{ address: null }] }, "ips[0].address: is missing"],
  [{ ips: [{ address: "<nil>" }] }, 'ips[0].address: invalid CIDR address: "<nil>"'],
  [{ ips: [null] }, "ips[0]: must be an object, got null"],
  [{ ips: {} }, "ips: must be an array, got {}"],
  [
    { ips: [{ address: "1.2.3.4/8", gateway: "junk" }] },
    'ips[0].gateway: invalid IP address: "junk"',
  ],
  [
    { ips: [{ address: "1.2.3.4/8", interface: 0 }] },
    "ips[0].interface: index 0 is beyond the 0 interfaces",
  ],
  [
    { interfaces: [{ name: "a" }], ips: [{ address: "1.2.3.4/8", interface: 1 }] },
    "ips[0].interface: index 1 is beyond the 1 interfaces",
  ],
  [
    { ips: [{ address: "1.2.3.4/8", interface: 0.5 }] },
    "ips[0].interface: must be an integer, got 0.5",
  ],
  [
    { ips: [{ address: "1.2.3.4/8", interface: "0" }] },
    'ips[0].interface: must be an integer, got "0"',
  ],
  [{ interfaces: [null] }, "interfaces[0]: must be an object, got null"],
  [{ interfaces: [{ mac: "aa" }] }, "interfaces[0].name: is missing"],
  [
    { interfaces: [{ name: "a", mtu: -1 }] },
    "interfaces[0].mtu: must be a non-negative integer, got -1",
  ],
  [{ routes: [{}] }, "routes[0].dst: is missing"],
  [{ routes: [{ dst: "::/0", gw: 1 }] }, "routes[0].gw: must be a string, got 1"],
  [
    { routes: [{ dst: "::/0", table: 1.5 }] },
    "routes[0].table: must be a non-negative integer, got 1.5",
  ],
  [{ dns: [] }, "dns: must be an object, got []"],
  [{ dns: { search: "a" } }, 'dns.search: must be an array, got "a"'],
  [{ dns: { search: [1] } }, "dns.search[0]: must be a string, got 1"],
  [{ cniVersion: "9.9.9" }, 'cniVersion: unsupported CNI result version "9.9.9"'],
  [{ cniVersion: "0.2.0", ip4: { ip: "abcd::1/64" } }, 'ip4.ip: "abcd::1/64" is not IPv4'],
  [{ cniVersion: "0.2.0", ip4: {} }, "ip4.ip: is missing"],
  [
    { cniVersion: "0.1.0", ip6: { ip: "::1/64", routes: [{ dst: "0.0.0.0/0" }] } },
    'ip6.routes[0].dst: "0.0.0.0/0" is not IPv6',
  ],
  [
    { cniVersion: "0.4.0", ips: [{ version: "4", address: "::1/64" }] },
    'ips[0].version: "4" is not the IP version of ::1/64',
  ],
  [
    { cniVersion: "0.4.0", ips: [{ version: "4", address: "::1" }] },
    'ips[0].address: invalid CIDR address: "::1"',
  ],
  [[], "must be an object, got []"],
  ["x", 'must be an object, got "x"'],
])("parseResult(%j) names the wrong field [R-0.3-03] [R-0.3-04] [R-0.4-06]", (raw, problem) => {
  expect(() => parse(raw)).toThrow(
    expect.objectContaining({ code: 6, message: `cannot decode result: ${problem}` }),
  );
});

test("parseResult() names every invalid field, up to ten, and counts the rest", () => {
  expect(() => parse({ ips: [{ address: "a" }], routes: [{ dst: "b" }] })).toThrow(
    'ips[0].address: invalid CIDR address: "a"; routes[0].dst: invalid CIDR address: "b"',
  );
  expect(() => parse({ ips: new Array(12).fill(null) })).toThrow(/; and 2 more$/);
});

test("parseResult() reads ip4 only in version 0.2.0, and ips only in later versions", () => {
  const lists = { ips: [{ address: "10.0.0.1/24" }], ip4: { ip: "10.0.0.2/24" } };
  expect(parse({ ...lists, cniVersion: "0.2.0" }).ips).toEqual([
    { address: "10.0.0.2/24", version: "4" },
  ]);
  expect(parse({ ...lists, cniVersion: "0.4.0" }).ips).toEqual([
    { address: "10.0.0.1/24", version: "" },
  ]);
  expect(parse({ ...lists, cniVersion: "1.0.0" }).ips).toEqual([{ address: "10.0.0.1/24" }]);
});

test.each([
  ["0.3.1", {}],
  ["1.1.0", { routes: [{ dst: "0.0.0.0/0" }] }],
  ["0.4.0", { ips: [{ address: "10.0.0.1/24" }] }],
])("formatResult() cannot convert a %s result without an address to 0.2.0", (cniVersion, body) => {
  expect(() => formatResult(parse({ cniVersion, ...body }), "0.2.0")).toThrow(
    "cannot convert: no valid IP addresses",
  );
});

test.each([
  ["1.0.0", "9.9.9", "no converter for CNI result version 1.0.0 to 9.9.9"],
  ["0.9.0", "1.0.0", "no converter for CNI result version 0.9.0 to 1.0.0"],
])("formatResult() rejects the conversion from %s to %s", (cniVersion, version, message) => {
  expect(() => formatResult({ cniVersion, ...empty }, version)).toThrow(
    expect.objectContaining({ code: 1, message }),
  );
});

test.each(supportedVersions)("formatResult() writes an empty 0.1.0 result as %s", (version) => {
  const isNew = version.startsWith("1.");
  expect(formatResult(parse({}, "0.1.0"), version)).toEqual({
    cniVersion: version,
    ...(isNew ? {} : { dns: {} }),
  });
});

test('formatResult() treats version "" as 0.1.0, and drops an interface index out of range', () => {
  const result = {
    cniVersion: "1.1.0",
    interfaces: [{ name: "a" }, { name: "b" }],
    ips: [
      { address: "10.0.0.1/24", interface: 2 },
      { address: "10.0.0.2/24", interface: 0 },
      { address: "10.0.0.3/24", interface: -1 },
      { address: "10.0.0.4/24" },
    ],
    routes: [],
  };
  expect(formatResult(result, "").cniVersion).toBe("0.1.0");
  expect(formatResult(result, "1.1.0").ips).toEqual([
    { address: "10.0.0.1/24" },
    { address: "10.0.0.2/24", interface: 0 },
    { address: "10.0.0.3/24" },
    { address: "10.0.0.4/24" },
  ]);
});

test.each([
  ["10.0.0.1/24", { ip4: { ip: "10.0.0.1/24", routes: [{ dst: "0.0.0.0/0" }] } }],
  ["fd00::1/64", { ip6: { ip: "fd00::1/64", routes: [{ dst: "::/0" }] } }],
])("formatResult() to 0.2.0 drops a route whose IP family has no address, as %s", (...row) => {
  const [address, written] = row;
  const raw = { ips: [{ address }], routes: [{ dst: "::/0" }, { dst: "0.0.0.0/0" }] };
  const cniVersion = "0.2.0";
  expect(formatResult(parse(raw), cniVersion)).toEqual({ cniVersion, ...written, dns: {} });
});

test("printResult() indents by four spaces, without a newline at the end", () => {
  expect(printResult({ cniVersion: "1.1.0", dns: { domain: "<a>" } })).toBe(
    '{\n    "cniVersion": "1.1.0",\n    "dns": {\n        "domain": "<a>"\n    }\n}',
  );
});
