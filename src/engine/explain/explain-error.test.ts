import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { explainError, pluginErrors } from "./explain-error.ts";
import { explainedProblem } from "./explanation.ts";

const errors: readonly [message: string, finding: string][] = [
  ["Link not found", "MasterMissing"],
  ["range 0: no IP addresses available in range set", "IpamExhausted"],
  ["the pool 10.0.0.0/24 is exhausted", "IpamExhausted"],
  ["the pool is full: exhausted retries", "IpamExhausted"],
  ["retries are exhausted, the pool is not", "PluginFailed"],
  ["an exhausted pool", "PluginFailed"],
  ["requested IP address 10.0.0.9 is not available in range", "AddressTaken"],
  ["failed to allocate all requested IPs: 10.9.9.9", "AddressOutsideRange"],
  ['could not add "br-production-storage": numerical result out of range', "ValueOutOfRange"],
  ["invalid VLAN ID 5000 (must be between 0 and 4094)", "ValueOutOfRange"],
  ["invalid MTU 99999, must be [0, master MTU(1500)]", "ValueOutOfRange"],
  [
    "error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: no such file or directory",
    "PluginDaemonUnavailable",
  ],
  ["error calling DHCP.Allocate: no more tries", "PluginTimeout"],
  ['unknown macvlan mode: "brigde"', "InvalidNetworkConfig"],
  ["RangeStart 10.78.0.5 not in network 10.77.0.0/24", "InvalidNetworkConfig"],
  ["failed to create ipvlan: operation not supported", "KernelSupport"],
  ['failed to find plugin "dhcp" in path [/opt/cni/bin]', "PluginMissing"],
  ["failed to open netns: permission denied", "PluginDenied"],
];

test.each(errors)("the error of a plugin %j is %s", (message, finding) => {
  expect(explainError({ message }).finding).toBe(finding);
});

test("the cases above cover every known plugin error", () => {
  const provoked = new Set(errors.map(([, finding]) => finding));
  expect(pluginErrors.filter(({ finding }) => !provoked.has(finding))).toEqual([]);
});

test.each([
  [{ network: "default/a", ifName: "x1" }, "default/a", "default/a (x1)"],
  [{ network: "default/a", ifName: "x1" }, undefined, "default/a (x1)"],
  [{ network: "default/a" }, undefined, "default/a"],
  [{ network: "default/a" }, "default/a (net1)", "default/a (net1)"],
])("the subject of the problem %j, with an error about %s, is %s", (problem, subject, shown) => {
  const error = new CniError("PluginMissing", "none", { subject });
  expect(explainedProblem({ ...problem, error }).subject).toBe(shown);
});
