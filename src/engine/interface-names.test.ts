import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf.ts";
import { assignInterfaceNames } from "./interface-names.ts";
import type { ResolvedNetwork } from "./planned.ts";

const runtimeIfName = "eth0";

function network(displayName: string, ifName?: string): ResolvedNetwork {
  const list = parseNetConfList({ cniVersion: "1.0.0", name: "n", type: "fake" }, { source: "test" });
  const selection = { namespace: "default", name: displayName, position: 1 };
  return {
    displayName,
    isDefault: displayName === "default",
    list,
    capabilityArgs: {},
    ...(ifName === undefined ? {} : { selection: { ...selection, ifName } }),
  };
}

function assign(networks: readonly ResolvedNetwork[], existing: readonly string[] = ["lo"]): string[] {
  return assignInterfaceNames(networks, { runtimeIfName, existing: new Set(existing) });
}

test("assignInterfaceNames() gives the default network the runtime's name and counts the others [N-4.2.1b]", () => {
  expect(assign([network("default"), network("a"), network("a")])).toEqual(["eth0", "net1", "net2"]);
});

test("assignInterfaceNames() uses the requested name [N-4.1.2.1.5.1]", () => {
  expect(assign([network("default"), network("a", "data0")])).toEqual(["eth0", "data0"]);
});

test("assignInterfaceNames() lets generated names step aside for requested ones, wherever these stand", () => {
  const names = assign([network("default"), network("a"), network("b", "net1"), network("c")]);
  expect(names).toEqual(["eth0", "net2", "net1", "net3"]);
});

test("assignInterfaceNames() lets generated names step aside for existing interfaces", () => {
  expect(assign([network("default"), network("a")], ["lo", "net1"])).toEqual(["eth0", "net2"]);
});

test.each([
  { what: "another request", networks: [network("default"), network("a", "x"), network("b", "x")] },
  { what: "the default network", networks: [network("default"), network("a", "eth0")] },
])("assignInterfaceNames() refuses a name that $what has [N-4.1.2.1.5b]", ({ networks }) => {
  expect(() => assign(networks)).toThrow(/interface \w+ is wanted by network \w+ and by network \w+/);
});

test("assignInterfaceNames() refuses a requested name that exists in the namespace", () => {
  expect(() => assign([network("default"), network("a", "tun0")], ["lo", "tun0"])).toThrow(
    "interface tun0, wanted by network a, exists already in the pod's network namespace",
  );
});
