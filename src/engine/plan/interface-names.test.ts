import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import { assignInterfaceNames } from "./interface-names.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

function named(displayName: string, ifName?: string, isDefault = false): ResolvedNetwork {
  const list = parseNetConfList(
    { cniVersion: "1.0.0", name: displayName, type: "ptp" },
    { source: "test" },
  );
  const selection = {
    namespace: "default",
    name: displayName,
    position: 1,
    ...(ifName && { ifName }),
  };
  return { displayName, isDefault, list, capabilityArgs: {}, selection };
}

function assign(networks: ResolvedNetwork[], existing: string[] = ["lo"]): string[] {
  return assignInterfaceNames(networks, { runtimeIfName: "eth0", existing: new Set(existing) });
}

const main = named("main", undefined, true);

test("assignInterfaceNames() counts net1, net2 … by position [N-4.2.1b]", () => {
  expect(assign([main, named("a"), named("b"), named("a")])).toEqual([
    "eth0",
    "net1",
    "net2",
    "net3",
  ]);
});

test("assignInterfaceNames() keeps the position of a network after one with a requested name [N-4.1.2.1.5.1]", () => {
  expect(assign([main, named("a", "data"), named("b")])).toEqual(["eth0", "data", "net2"]);
});

test("assignInterfaceNames() steps aside for requested and existing names, wherever they come", () => {
  expect(assign([main, named("a"), named("b", "net1"), named("c")])).toEqual([
    "eth0",
    "net2",
    "net1",
    "net3",
  ]);
  expect(assign([main, named("a"), named("b")], ["lo", "net1"])).toEqual(["eth0", "net2", "net3"]);
});

test("assignInterfaceNames() refuses a name that two networks want [N-4.1.2.1.5b]", () => {
  expect(() => assign([main, named("a", "data"), named("b", "data")])).toThrow(
    expect.objectContaining({
      code: 100,
      message: "interface data is requested by network a and by network b",
    }),
  );
});

test("assignInterfaceNames() refuses the runtime's name for another network", () => {
  expect(() => assign([main, named("a", "eth0")])).toThrow(
    /eth0 is requested by network main and by network a/,
  );
});

test.each([
  ["requested", [main, named("a", "data")], "data"],
  ["the runtime's", [main], "eth0"],
] as const)(
  "assignInterfaceNames() refuses a name that exists in the namespace: %s [R-1.0-13]",
  (_, networks, taken) => {
    expect(() => assign([...networks], ["lo", taken])).toThrow(
      expect.objectContaining({
        code: 100,
        message: expect.stringContaining(`interface ${taken}, requested by`),
      }),
    );
  },
);

test("assignInterfaceNames() keeps the default network on the runtime's interface, whatever is asked for it [R-0.3-05]", () => {
  expect(assign([named("own", "eth0", true)])).toEqual(["eth0"]);
  expect(() => assign([named("own", "data", true)])).toThrow(
    expect.objectContaining({ code: 100, message: expect.stringMatching(/own.*eth0.*data/) }),
  );
});
