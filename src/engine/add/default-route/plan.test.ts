import { describe, expect, test } from "vitest";
import { ipFamily } from "#lib/ip.ts";
import { type Hop, type KernelRoute, newDefaultRoute } from "#netlink/routes.ts";
import { planDefaultRoute, planWithoutDefaults, type RouteEdit } from "./plan.ts";
import type { RoutedAttachment, RouteState } from "./route-state.ts";

const links = ["lo", "eth0", "net1", "net2", "wg0"].map((name, i) => ({
  index: i + 1,
  name,
  flags: 1,
  mtu: 1500,
}));
const index = (name: string): number => links.find((link) => link.name === name)?.index ?? 0;

function onLink(name: string, cidr: string): KernelRoute {
  const [address = "", prefix] = cidr.split("/");
  const base = newDefaultRoute({
    family: ipFamily(address),
    ifIndex: index(name),
    gateway: address,
    metric: 0,
    onlink: false,
  });
  return {
    ...base,
    dst: { address, prefix: Number(prefix) },
    hops: [{ ifIndex: index(name), onlink: false }],
  };
}

function byDefault(
  name: string,
  gateway: string,
  options: { metric?: number; onlink?: boolean } = {},
): KernelRoute {
  const family = ipFamily(gateway);
  const { metric = family === 4 ? 0 : 1024, onlink = false } = options;
  return newDefaultRoute({ family, ifIndex: index(name), gateway, metric, onlink });
}

function withGateway(route: KernelRoute, gateway: string): KernelRoute {
  return { ...route, hops: route.hops.map((hop) => ({ ...hop, gateway })) };
}

const hop = (name: string, gateway: string): Hop => ({
  ifIndex: index(name),
  gateway,
  onlink: false,
  wire: new Uint8Array(8),
});

/** A multipath route. */
function multipath(metric: number, ...hops: readonly Hop[]): KernelRoute {
  return { ...byDefault("eth0", "10.0.0.1", { metric }), hops };
}

const networks = [
  onLink("eth0", "10.0.0.0/24"),
  onLink("net1", "10.1.0.0/24"),
  onLink("net1", "fd01::/64"),
  onLink("net2", "10.2.0.0/24"),
];
const addresses = [
  { ifIndex: index("eth0"), family: 4 as const, address: "10.0.0.2", prefix: 24, isGlobal: true },
  { ifIndex: index("net1"), family: 4 as const, address: "10.1.0.2", prefix: 24, isGlobal: true },
];

function state(...defaults: KernelRoute[]): RouteState {
  return { links, addresses, routes: [...networks, ...defaults] };
}

function plan(
  current: RouteState,
  requested: readonly string[],
  more: readonly RoutedAttachment[] = [],
): string[] {
  const attachments = [{ ifName: "eth0" }, { ifName: "net1", requested }, ...more];
  return planDefaultRoute(current, attachments).edits.map(show);
}

function show({ op, route, append }: RouteEdit): string {
  const hops = route.hops.map(
    ({ ifIndex, gateway, onlink }) => `${links[ifIndex - 1]?.name}>${gateway}${onlink ? "!" : ""}`,
  );
  return `${append ? "append" : op} ${hops.join("+")} ${route.metric}`;
}

describe("planDefaultRoute()", () => {
  test("removes routes before it adds new ones, separately for each IP family", () => {
    const current = state(byDefault("eth0", "10.0.0.1"), byDefault("eth0", "fd00::1"));
    expect(plan(current, ["fd01::1", "10.1.0.1"])).toEqual([
      "del eth0>10.0.0.1 0",
      "del eth0>fd00::1 1024",
      "add net1>10.1.0.1 0",
      "add net1>fd01::1 1024",
    ]);
    expect(plan(current, ["10.1.0.1"])).toEqual(["del eth0>10.0.0.1 0", "add net1>10.1.0.1 0"]);
  });

  test("adds a default route if there was none", () => {
    expect(plan(state(), ["10.1.0.1"])).toEqual(["add net1>10.1.0.1 0"]);
  });

  test("keeps a route that is as requested and replaces the attachment's other default routes", () => {
    const current = state(
      byDefault("net1", "10.1.0.1"),
      byDefault("net1", "10.1.0.9", { metric: 5 }),
    );
    expect(plan(current, ["10.1.0.1"])).toEqual(["del net1>10.1.0.9 5"]);
    expect(plan(current, ["10.1.0.9"])).toEqual([
      "del net1>10.1.0.1 0",
      "del net1>10.1.0.9 5",
      "add net1>10.1.0.9 0",
    ]);
    expect(plan(current, ["10.1.0.1", "10.1.0.9"])).toEqual([
      "del net1>10.1.0.9 5",
      "add net1>10.1.0.9 1",
    ]);
  });

  test.each([
    ["of another interface", byDefault("eth0", "10.1.0.1"), "eth0>10.1.0.1"],
    [
      "with another hop",
      multipath(0, hop("net1", "10.1.0.1"), hop("eth0", "10.0.0.1")),
      "net1>10.1.0.1+eth0>10.0.0.1",
    ],
  ])("replaces a route %s with the requested gateway", (_, route, shown) => {
    expect(plan(state(route), ["10.1.0.1"])).toEqual([`del ${shown} 0`, "add net1>10.1.0.1 0"]);
  });

  test("accepts gateways in any notation and ignores duplicates", () => {
    expect(plan(state(), ["FD01:0::1", "fd01::1"])).toEqual(["add net1>fd01::1 1024"]);
    expect(plan(state(), ["::ffff:10.1.0.1"])).toEqual(["add net1>10.1.0.1 0"]);
  });

  test("refuses gateways that the kernel would refuse", () => {
    const current = state(
      byDefault("eth0", "10.0.0.1"),
      onLink("net1", "0.0.0.0/0"),
      withGateway(onLink("net1", "10.5.0.0/16"), "10.1.0.9"),
      byDefault("net1", "10.7.0.1"),
      byDefault("net1", "169.254.1.1", { metric: 9, onlink: true }),
    );
    const message = (gateway: string): string =>
      `default route through net1: gateway ${gateway} is not in any network of the interface`;
    const refused = ["10.9.0.1", "10.0.0.1", "10.5.0.1", "10.7.0.1", "169.254.1.2", "fd02::1"];
    for (const gateway of refused) {
      expect(() => plan(current, ["10.1.0.1", gateway])).toThrow(message(gateway));
    }
    expect(() => plan(current, ["10.1.0.2"])).toThrow("gateway 10.1.0.2 is the pod's own address");
  });

  test("accepts link-local gateways, and on-link gateways that the attachment already uses", () => {
    expect(plan(state(), ["fe80::1"])).toEqual(["add net1>fe80::1 1024"]);
    const current = state(byDefault("net1", "169.254.1.1", { metric: 9, onlink: true }));
    expect(plan(current, ["169.254.1.1"])).toEqual([
      "del net1>169.254.1.1! 9",
      "add net1>169.254.1.1! 0",
    ]);
  });

  test("refuses an attachment without a usable interface", () => {
    const down = links.map((link) => ({ ...link, flags: 0 }));
    const current = { ...state(byDefault("eth0", "10.0.0.1")), links: down };
    const select = (ifName: string, requested: string[]): unknown =>
      planDefaultRoute(current, [{ ifName, requested }]);
    expect(() => select("net9", ["10.1.0.1"])).toThrow(
      "default route through net9: the pod has no such interface",
    );
    expect(() => select("net1", ["10.1.0.1"])).toThrow(
      "default route through net1: the interface is down",
    );
    expect(select("net9", [])).toEqual({ edits: [], families: [] });
  });

  test("sets what an attachment's plugins report and did not set, for an empty list [N-4.1.2.1.9b]", () => {
    const select = (current: RouteState, ifName: string, gateways: string[]): string[] =>
      planDefaultRoute(current, [
        { ifName: "eth0" },
        { ifName, requested: [], gateways },
      ]).edits.map(show);
    const current = state(byDefault("eth0", "10.0.0.1"), byDefault("eth0", "fe80::9"));
    expect(select(current, "net1", ["10.1.0.1", "10.1.0.1"])).toEqual([
      "del eth0>10.0.0.1 0",
      "add net1>10.1.0.1 0",
    ]);
    const own = state(byDefault("eth0", "10.0.0.1"), byDefault("net1", "10.1.0.9", { metric: 5 }));
    expect(select(own, "net1", ["10.1.0.1"])).toEqual(["del eth0>10.0.0.1 0"]);
    expect(select(current, "net9", ["10.1.0.1"])).toEqual([]);
    expect(() => select(current, "net1", ["10.9.0.1"])).toThrow(
      "gateway 10.9.0.1 is not in any network of the interface",
    );
  });

  test("gives IPv4 to one attachment and IPv6 to another (multus.md §2.8)", () => {
    const current = state(byDefault("eth0", "10.0.0.1"), byDefault("eth0", "fe80::9"));
    expect(plan(current, ["fd01::1"], [{ ifName: "net2", requested: ["10.2.0.1"] }])).toEqual([
      "del eth0>10.0.0.1 0",
      "del eth0>fe80::9 1024",
      "add net2>10.2.0.1 0",
      "add net1>fd01::1 1024",
    ]);
  });

  const both = ["del eth0>10.0.0.1 0", "del net2>10.2.0.1 0", "add net1>10.1.0.1 0"];
  test.each<[string, readonly RoutedAttachment[], string[]]>([
    [
      "of another attachment",
      [
        { ifName: "eth0", otherIfNames: ["eth0", "net2"] },
        { ifName: "net1", requested: ["10.1.0.1"] },
      ],
      both,
    ],
    [
      "of the selected attachment, whose gateways replace its own",
      [
        { ifName: "eth0" },
        { ifName: "net1", otherIfNames: ["net1", "net2"], requested: ["10.1.0.1"] },
      ],
      both,
    ],
    [
      "of the selected attachment, which keeps its own",
      [{ ifName: "eth0" }, { ifName: "net1", otherIfNames: ["net1", "net2"], requested: [] }],
      ["del eth0>10.0.0.1 0"],
    ],
    [
      "that is the selected attachment's",
      [
        { ifName: "eth0", requested: [] },
        { ifName: "net2", otherIfNames: ["eth0", "net2"] },
      ],
      ["del net2>10.2.0.1 0"],
    ],
    [
      "that is another attachment's",
      [{ ifName: "eth0" }, { ifName: "net2", otherIfNames: ["eth0", "net2"], requested: [] }],
      ["del eth0>10.0.0.1 0"],
    ],
  ])("considers further interfaces of a result: one %s", (_, attachments, edits) => {
    const current = state(byDefault("eth0", "10.0.0.1"), byDefault("net2", "10.2.0.1"));
    expect(planDefaultRoute(current, attachments).edits.map(show)).toEqual(edits);
  });

  test("keeps the attachment's own default route if the result of another one names its interface", () => {
    const current = state(byDefault("eth0", "10.0.0.1"), byDefault("net1", "10.1.0.1"));
    const more = [{ ifName: "net2", otherIfNames: ["net1"] }];
    expect(plan(current, [], more)).toEqual(["del eth0>10.0.0.1 0"]);
    expect(plan(current, ["10.1.0.1"], more)).toEqual(["del eth0>10.0.0.1 0"]);
  });

  test("names an interface that was added meanwhile by its number", () => {
    const added = newDefaultRoute({
      ...{ family: 4, ifIndex: 9, gateway: "10.9.0.1", metric: 0, onlink: false },
    });
    expect(() => plan(state(added), ["10.1.0.1"])).toThrow("interface #9, which belongs to no");
  });

  test("keeps routes of interfaces without an attachment, and fails if they would take precedence", () => {
    const far = byDefault("wg0", "10.0.0.1", { metric: 100 });
    expect(plan(state(far), ["10.1.0.1"])).toEqual(["add net1>10.1.0.1 0"]);
    expect(plan(state(far, byDefault("net1", "10.1.0.1")), [])).toEqual([]);
    expect(() => plan(state(byDefault("wg0", "10.0.0.1")), ["10.1.0.1"])).toThrow(
      "interface wg0, which belongs to no attachment, has the pod's IPv4 default route",
    );
    const many = Array.from({ length: 101 }, (_, i) => `10.1.0.${i + 10}`);
    expect(() => plan(state(far), many)).toThrow("interface wg0");
    expect(plan(state(far), many.slice(1))).toHaveLength(100);
  });

  test("removes the attachments' hops from a multipath route", () => {
    const mixed = multipath(10, hop("eth0", "10.0.0.1"), hop("wg0", "10.9.0.1"));
    expect(plan(state(mixed), ["10.1.0.1"])).toEqual([
      "del eth0>10.0.0.1+wg0>10.9.0.1 10",
      "append wg0>10.9.0.1 10",
      "add net1>10.1.0.1 0",
    ]);
    const both = multipath(10, hop("eth0", "10.0.0.1"), hop("net1", "10.1.0.1"));
    expect(plan(state(both), [])).toEqual([
      "del eth0>10.0.0.1+net1>10.1.0.1 10",
      "append net1>10.1.0.1 10",
    ]);
  });
});

describe("planWithoutDefaults()", () => {
  const [eth0, viaNet1] = [byDefault("eth0", "10.0.0.1"), byDefault("net1", "10.1.0.1")];
  const v6 = byDefault("net1", "fd01::1");
  const onNet1 = hop("net1", "fd01::1");
  test.each<[what: string, routes: readonly KernelRoute[], edits: readonly string[]]>([
    ["a route beside the pod's", [eth0, viaNet1], ["del net1>10.1.0.1 0"]],
    ["only the family that others have", [eth0, viaNet1, v6], ["del net1>10.1.0.1 0"]],
    [
      "a route beside one of no attachment",
      [byDefault("wg0", "10.9.0.1"), viaNet1],
      ["del net1>10.1.0.1 0"],
    ],
    ["nothing if no other interface has one", [viaNet1, v6], []],
    ["nothing if it has none", [eth0], []],
    [
      "a hop that the kernel merged into the pod's route",
      [multipath(1024, hop("eth0", "fd00::1"), onNet1)],
      ["del eth0>fd00::1+net1>fd01::1 1024", "append eth0>fd00::1 1024"],
    ],
  ])("removes %s", (_, routes, edits) => {
    const plan = planWithoutDefaults(state(...routes), { ifName: "net1" }, ["eth0"]);
    expect(plan.edits.map(show)).toEqual(edits);
  });

  test("removes the routes of all its interfaces, and none of another attachment's", () => {
    const all = state(eth0, byDefault("net2", "10.2.0.1"), byDefault("wg0", "10.9.0.1"));
    const added = { ifName: "net1", otherIfNames: ["net2", "eth0"] };
    expect(planWithoutDefaults(all, added, ["eth0"]).edits.map(show)).toEqual([
      "del net2>10.2.0.1 0",
    ]);
  });
});
