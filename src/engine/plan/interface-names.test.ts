import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import { assignInterfaceNames } from "./interface-names.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

function named(displayName: string, ifName?: string, isDefault = false): ResolvedNetwork {
  const conf = { cniVersion: "1.0.0", name: displayName, type: "ptp" };
  const list = parseNetConfList(conf, { source: "test" });
  const reference = { namespace: "default", name: displayName, position: 1 };
  const selection = { ...reference, ...(ifName && { ifName }) };
  return { displayName, isDefault, list, capabilityArgs: {}, selection };
}

function assign(networks: ResolvedNetwork[], existing: string[] = ["lo"]): string[] {
  return assignInterfaceNames(networks, { runtimeIfName: "eth0", existing: new Set(existing) });
}

const main = named("main", undefined, true);

test.each<[what: string, networks: ResolvedNetwork[], names: string, existing?: string[]]>([
  ["counts by position", [main, named("a"), named("b"), named("a")], "eth0 net1 net2 net3"],
  ["counts a requested name", [main, named("a", "data"), named("b")], "eth0 data net2"],
  [
    "skips names that another network requests, earlier or later",
    [main, named("a"), named("b", "net1"), named("c")],
    "eth0 net2 net1 net3",
  ],
  ["skips existing names", [main, named("a"), named("b")], "eth0 net2 net3", ["net1"]],
  ["keeps the runtime's name for the default network", [named("own", "eth0", true)], "eth0"],
])("assignInterfaceNames() %s [N-4.1.2.1.5.1] [N-4.2.1b]", (...[, networks, names, existing]) => {
  expect(assign(networks, existing)).toEqual(names.split(" "));
});

const exists = "already exists in the pod's network namespace";

test.each<[message: string, networks: ResolvedNetwork[], existing?: string[]]>([
  [
    "interface data is requested by network a and by network b",
    [main, named("a", "data"), named("b", "data")],
  ],
  ["interface eth0 is requested by network main and by network a", [main, named("a", "eth0")]],
  [`interface data, requested by network a, ${exists}`, [main, named("a", "data")], ["data"]],
  [`interface eth0, requested by network main, ${exists}`, [main], ["lo", "eth0"]],
  [
    "network own replaces the default network and must be on interface eth0, which the runtime requests, not on data",
    [named("own", "data", true)],
  ],
])("names fail: %s [N-4.1.2.1.5b] [R-0.3-05] [R-1.0-13]", (...[message, networks, existing]) => {
  const error = expect.objectContaining({ code: 100, message });
  expect(() => assign(networks, existing)).toThrow(error);
});
