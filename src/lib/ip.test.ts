import { expect, test } from "vitest";
import {
  contains,
  covers,
  ipFamily,
  ipFromBytes,
  ipToBytes,
  isDefaultRoute,
  parseCidr,
  parseIp,
  tryParseNetwork,
} from "./ip.ts";

test.each([
  ["10.0.0.1", "10.0.0.1"],
  ["0.0.0.0", "0.0.0.0"],
  ["255.255.255.255", "255.255.255.255"],
  ["ABCD:1234:ffff:0::cdde", "abcd:1234:ffff::cdde"],
  ["::", "::"],
  ["::1", "::1"],
  ["fe80::", "fe80::"],
  ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
  ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"],
  ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
  ["::ffff:10.0.0.5", "10.0.0.5"],
  ["::FFFF:0a00:0005", "10.0.0.5"],
  ["64:ff9b::192.0.2.33", "64:ff9b::c000:221"],
  ["::1.2.3.4", "::102:304"],
])("parseIp(%j) gives Go's canonical form", (text, canonical) => {
  expect(parseIp(text)).toBe(canonical);
  expect(parseIp(canonical)).toBe(canonical);
  expect(ipFromBytes(ipToBytes(canonical))).toBe(canonical);
});

test.each([
  "",
  "junk",
  "10.0.0",
  "10.0.0.256",
  "010.0.0.1",
  "10.0.0.1.",
  "10.0.0.1/24",
  " 10.0.0.1",
  "10.0.0.1\n",
  "fe80::1%eth0",
  "::ffff:010.0.0.1",
  "1:2:3",
  "1:2:3:4:5:6:7:8:9",
  "1::2::3",
  ":1::2",
  "1::2:",
  "12345::",
  "1:2:3:4:5:6:7::8",
  "::1.2.3",
  "1.2.3.4::",
  ":::",
  "g::",
  "1.2.3.4:1::",
  "::1.2.3.4:1",
  "0x7f.1",
  "::ffff:0x1.2.3.4",
  "00001::",
])("parseIp(%j) refuses it as Go does", (text) => {
  expect(() => parseIp(text)).toThrow(`invalid IP address: ${JSON.stringify(text)}`);
});

test.each([
  ["15.5.6.8/24", { address: "15.5.6.8", prefix: 24, family: 4 }],
  ["0.0.0.0/0", { address: "0.0.0.0", prefix: 0, family: 4 }],
  ["::ffff:10.0.0.5/120", { address: "10.0.0.5", prefix: 24, family: 4 }],
  ["FD77::2/64", { address: "fd77::2", prefix: 64, family: 6 }],
  ["::/0", { address: "::", prefix: 0, family: 6 }],
  ["10.0.0.1/024", { address: "10.0.0.1", prefix: 24, family: 4 }],
] as const)("parseCidr(%j) keeps the host bits", (text, cidr) => {
  expect(parseCidr(text)).toEqual(cidr);
});

test.each([
  "",
  "10.0.0.5",
  "10.0.0.5/",
  "10.0.0.5/33",
  "10.0.0.5/-1",
  "10.0.0.5/2 4",
  "::1/129",
  "/24",
  "10.0.0.5/24/24",
  "fe80::1%eth0/64",
  "::ffff:10.0.0.5/95",
  "::ffff:10.0.0.5/129",
  "10.0.0.5/1e1",
  "<nil>",
])("parseCidr(%j) refuses it", (text) => {
  expect(() => parseCidr(text)).toThrow(`invalid CIDR address: ${JSON.stringify(text)}`);
});

test("ipFamily() and isDefaultRoute() take addresses and destinations", () => {
  expect(["10.0.0.1", "::ffff:1.2.3.4/100", "::1", "::1/64"].map(ipFamily)).toEqual([4, 4, 6, 6]);
  const destinations = ["0.0.0.0/0", "::/0", "10.0.0.0/8", "::/1", "junk"];
  expect(destinations.filter(isDefaultRoute)).toEqual(["0.0.0.0/0", "::/0"]);
});

test.each([
  ["10.0.0.0/24", "10.0.0.255", true],
  ["10.0.0.0/24", "10.0.1.0", false],
  ["10.0.0.64/26", "10.0.0.127", true],
  ["10.0.0.64/26", "10.0.0.128", false],
  ["10.0.0.1/32", "10.0.0.1", true],
  ["0.0.0.0/0", "10.0.0.1", true],
  ["::/0", "10.0.0.1", false],
  ["fd01::/64", "fd01::ffff:0:0:1", true],
  ["fd01::/65", "fd01:0:0:0:8000::", false],
])("covers(%s, %s) is %s", (network, address, covered) => {
  expect(covers(parseCidr(network), address)).toBe(covered);
});

test.each([
  ["10.0.0.0/8", "10.96.0.0/12", true],
  ["10.96.0.0/12", "10.0.0.0/8", false],
  ["10.96.0.0/12", "10.96.0.0/12", true],
  ["10.96.0.0/12", "10.112.0.0/16", false],
  ["::/0", "10.0.0.0/8", false],
])("contains(%s, %s) is %s", (network, part, contained) => {
  expect(contains(parseCidr(network), parseCidr(part))).toBe(contained);
});

test("tryParseNetwork() takes no host bits", () => {
  const texts = ["10.96.0.0/12", "fd00:96::/108", "0.0.0.0/0", "10.0.0.1/32"];
  const all = [...texts, "10.97.0.0/12", "fd00::1/64", "10.0.0.0/33", "10.0.0.0", "x/8"];
  expect(all.filter((text) => tryParseNetwork(text) !== undefined)).toEqual(texts);
});
