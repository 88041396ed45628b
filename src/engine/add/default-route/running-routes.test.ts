import { RouteProtocol } from "netlink/dist/rt/gen_structs.js";
import { beforeEach, describe, expect, test } from "vitest";
import type { CallContext } from "#engine/call/call-context.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { RecordedAttachment, YieldedRoute } from "#engine/record/record.ts";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { type IpFamily, ipFamily, ipToBytes } from "#lib/ip.ts";
import { encodePayload, execute } from "#netlink/codec.ts";
import {
  addRoute,
  deleteRoute,
  type Hop,
  isDefault,
  type KernelRoute,
  listRoutes,
  metricsOf,
  newDefaultRoute,
  withHops,
} from "#netlink/routes.ts";
import {
  giveBackRoutes,
  restoreRoutes,
  routePlugged,
  routesAhead,
  routesOfSandbox,
} from "./running-routes.ts";

/*
 * Default routes are written `eth0>10.0.0.1 0`: interface, gateway, metric. A gateway with `!` is
 * `onlink`, `*` is an IPv4 and `**` an IPv6 route without one, and `+` joins the hops of a
 * multipath route.
 */

const netns = "/run/netns/x";
const eth0 = ["eth0>10.0.0.1 0", "eth0>fd00::1 1024"];
const net1 = ["net1>10.1.0.1 0", "net1>fd01::1 1024"];
const net2 = ["net2>10.2.0.1 7", "net2>fd02::1 1031"];
let kernel: FakeKernel;
let logger: FakeLogger;
let ctx: CallContext;

beforeEach(() => {
  kernel = new FakeKernel();
  logger = new FakeLogger();
  ctx = { host: { netlink: kernel.transport }, logger } as unknown as CallContext;
  kernel.addNamespace(netns);
  kernel.addLink(netns, "eth0", ["10.0.0.2/24", "fd00::2/64"]);
  kernel.addLink(netns, "net2", ["10.2.0.2/24", "fd02::2/64"]);
});

function indexOf(name: string | undefined): number {
  return kernel.link(netns, name ?? "")?.index ?? 0;
}

function parseHop(text: string): { readonly family: IpFamily; readonly hop: Hop } {
  const [name, written = ""] = text.split(">");
  const gateway = written.replace("!", "");
  const hop = { ifIndex: indexOf(name), onlink: gateway !== written };
  if (gateway.startsWith("*")) return { family: gateway === "*" ? 4 : 6, hop };
  return { family: ipFamily(gateway), hop: { ...hop, gateway } };
}

/** The hop of a multipath route as the kernel sends it. */
function wireOf({ ifIndex, gateway = "" }: Hop): Uint8Array {
  const attributes = encodePayload(Buffer.alloc(0), [{ type: 5, data: ipToBytes(gateway) }]);
  const header = Buffer.alloc(8);
  header.writeUInt16LE(8 + attributes.length, 0);
  header.writeInt32LE(ifIndex, 4);
  return Buffer.concat([header, attributes]);
}

function parseRoute(text: string): KernelRoute {
  const [written = "", metric] = text.split(" ");
  const [first, ...more] = written.split("+").map(parseHop);
  if (first === undefined) throw new Error(text);
  const { family, hop } = first;
  const route = newDefaultRoute({ family, ...hop, metric: Number(metric) });
  if (more.length === 0) return route;
  return withHops(
    route,
    [first, ...more].map((each) => ({ ...each.hop, wire: wireOf(each.hop) })),
  );
}

async function readDefaults(): Promise<KernelRoute[]> {
  const lists = ([4, 6] as const).map((family) => listRoutes(kernel.transport, netns, family));
  return (await Promise.all(lists)).flat().filter(isDefault);
}

async function setDefaults(...routes: string[]): Promise<void> {
  const old = await readDefaults();
  await execute(kernel.transport, netns, old.map(deleteRoute));
  await execute(
    kernel.transport,
    netns,
    routes.map((each) => addRoute(parseRoute(each), { append: true })),
  );
}

async function defaults(): Promise<string[]> {
  return (await readDefaults()).map(({ family, hops, metric }) => {
    const written = hops.map(({ ifIndex, gateway = family === 4 ? "*" : "**", onlink }) => {
      const name = ["eth0", "net1", "net2"].find((each) => indexOf(each) === ifIndex);
      return `${name}>${gateway}${onlink ? "!" : ""}`;
    });
    return `${written.join("+")} ${metric}`;
  });
}

/** A yielded route, written as a default route. */
function yielded(text: string): YieldedRoute {
  const [dev = ""] = text.split(">");
  const { family, hops, metric } = parseRoute(text);
  const [{ gateway, onlink } = { onlink: false }] = hops;
  const dst = family === 4 ? "0.0.0.0/0" : "::/0";
  return { dst, ...(gateway !== undefined && { gw: gateway }), dev, metric, onlink };
}

interface Attachment {
  readonly requested?: readonly string[];
  readonly lost?: readonly string[];
  /** Further interfaces that its result names. */
  readonly names?: readonly string[];
}

function attachment(ifName: string, { requested, lost, names = [] }: Attachment = {}): Attached {
  const interfaces = [ifName, ...names].map((name) => ({ name, sandbox: netns }));
  const selection = requested && { defaultRoute: requested };
  const planned = { ifName, list: { cniVersion: "1.1.0" }, selection };
  const result = { cniVersion: "1.1.0", interfaces, ips: [], routes: [] };
  const yieldedRoutes = lost?.map(yielded);
  return { planned, result, raw: {}, ignoredRequests: [], yieldedRoutes } as unknown as Attached;
}

/** What is replaced had these routes by its plugins. */
function replacedWith(
  routes: readonly object[],
  more: Partial<RecordedAttachment> = {},
): RecordedAttachment {
  const replaced = { ifName: "net1", result: { cniVersion: "1.1.0", routes }, ...more };
  return replaced as unknown as RecordedAttachment;
}

/** Plugs net1, whose plugins leave these default routes. */
async function plug(
  { before, left }: { readonly before: readonly string[]; readonly left: readonly string[] },
  {
    earlier = [attachment("eth0"), attachment("net2")],
    added = attachment("net1"),
    replaced,
  }: { earlier?: Attached[]; added?: Attached; replaced?: RecordedAttachment | undefined } = {},
): ReturnType<typeof routePlugged> {
  await setDefaults(...before);
  const state = await routesOfSandbox(ctx, netns);
  kernel.addLink(netns, "net1", ["10.1.0.2/24", "fd01::2/64"]);
  await setDefaults(...left);
  return routePlugged(ctx, netns, { before: state, earlier, added, replaced });
}

function lostOf({ yieldedRoutes = [] }: Attached): string[] {
  return yieldedRoutes.map(({ dst, gw, dev, metric, onlink }) => {
    const gateway = gw ?? (dst === "::/0" ? "**" : "*");
    return `${dev}>${gateway}${onlink ? "!" : ""} ${metric}`;
  });
}

/** What a running pod has had, what plugins have left of it, and what it has in the end. */
const lostAndKept = [
  { what: "a route", before: eth0, left: [], after: eth0 },
  { what: "one family", before: eth0, left: [eth0[1]], after: eth0 },
  {
    what: "a worse route of the same gateway",
    before: ["eth0>10.0.0.1 0", "eth0>10.0.0.1 100"],
    left: ["eth0>10.0.0.1 0"],
    after: ["eth0>10.0.0.1 0", "eth0>10.0.0.1 100"],
  },
  {
    what: "a better route of the same gateway",
    before: ["eth0>10.0.0.1 0", "eth0>10.0.0.1 100"],
    left: ["eth0>10.0.0.1 100"],
    after: ["eth0>10.0.0.1 0", "eth0>10.0.0.1 100"],
  },
  {
    what: "another gateway of the interface",
    before: ["eth0>10.0.0.1 0", "eth0>10.0.0.9 0"],
    left: ["eth0>10.0.0.9 0"],
    after: ["eth0>10.0.0.1 0", "eth0>10.0.0.9 0"],
  },
  {
    what: "the same gateway of another interface",
    before: ["eth0>fe80::1 1024", "net2>fe80::1 1024"],
    left: ["net2>fe80::1 1024"],
    after: ["eth0>fe80::1 1024", "net2>fe80::1 1024"],
  },
  {
    what: "routes without a gateway",
    before: ["eth0>* 0", "net2>** 1024"],
    left: [],
    after: ["eth0>* 0", "net2>** 1024"],
  },
  {
    what: "an onlink route",
    before: ["eth0>169.254.1.1! 0"],
    left: [],
    after: ["eth0>169.254.1.1! 0"],
  },
  {
    what: "a multipath route",
    before: ["eth0>10.0.0.1+net2>10.2.0.1 10"],
    left: [],
    after: ["eth0>10.0.0.1+net2>10.2.0.1 10"],
  },
  {
    what: "one hop of a multipath route",
    before: ["eth0>10.0.0.1+net2>10.2.0.1 10"],
    left: ["eth0>10.0.0.1 10"],
    after: ["eth0>10.0.0.1 10", "eth0>10.0.0.1+net2>10.2.0.1 10"],
  },
  {
    what: "nothing, if the hops of a multipath route are routes now",
    before: ["eth0>10.0.0.1+net2>10.2.0.1 10"],
    left: ["eth0>10.0.0.1 10", "net2>10.2.0.1 10"],
    after: ["eth0>10.0.0.1 10", "net2>10.2.0.1 10"],
  },
  {
    what: "nothing, if another family got a route",
    before: [eth0[0]],
    left: eth0,
    after: eth0,
  },
] as readonly { what: string; before: string[]; left: string[]; after: string[] }[];

describe("restoreRoutes()", () => {
  test.each(lostAndKept)("restores what a failed network has cost: $what", async (row) => {
    await setDefaults(...row.before);
    const before = await routesOfSandbox(ctx, netns);
    await setDefaults(...row.left);
    await restoreRoutes(ctx, netns, before);
    expect((await defaults()).toSorted()).toEqual(row.after.toSorted());
    expect(logger.lines).toEqual([]);
  });

  test("logs why the kernel refuses, and passes on that the agent has gone", async () => {
    await setDefaults(...eth0);
    const before = await routesOfSandbox(ctx, netns);
    await setDefaults();
    kernel.refuse = () => 1;
    await restoreRoutes(ctx, netns, before);
    expect(logger.lines).toMatchObject([
      { level: "error", fields: { err: { message: expect.stringContaining("EPERM") } } },
    ]);
    const gone = new HostGoneError("agent");
    const host = { netlink: () => Promise.reject(gone) } as unknown as CallContext["host"];
    await expect(restoreRoutes({ ...ctx, host }, netns, before)).rejects.toBe(gone);
    expect(logger.lines).toHaveLength(1);
  });
});

describe("routePlugged()", () => {
  test.each(lostAndKept)("restores what the plugins have removed: $what", async (row) => {
    const { earlier } = await plug(row);
    expect((await defaults()).toSorted()).toEqual(row.after.toSorted());
    expect(earlier).toEqual([attachment("eth0"), attachment("net2")]);
  });

  test.each([
    { what: "a route beside those of the pod", before: eth0, left: [...eth0, "net1>10.1.0.1 50"] },
    { what: "a better route", before: ["eth0>10.0.0.1 9"], left: ["eth0>10.0.0.1 9", net1[0]] },
    { what: "the pod's only route", before: eth0, left: net1 },
    { what: "a route without a gateway", before: ["eth0>* 0"], left: ["net1>* 0"] },
    {
      what: "a hop that the kernel merged into the pod's route",
      before: ["eth0>fd00::1 1024"],
      left: ["eth0>fd00::1+net1>fd01::1 1024"],
    },
    {
      what: "the family that the pod has, not the other one",
      before: ["eth0>10.0.0.1 0"],
      left: net1,
      after: ["eth0>10.0.0.1 0", "net1>fd01::1 1024"],
    },
    { what: "nothing, if the pod has none", before: [], left: net1, after: net1 },
  ])("a plugged network loses $what", async ({ before, left, after = before }) => {
    const { added } = await plug({ before, left } as { before: string[]; left: string[] });
    const now = await defaults();
    expect(now.toSorted()).toEqual(after.toSorted());
    expect(lostOf(added)).toEqual([]);
  });

  const v4 = { dst: "0.0.0.0/0", gw: "10.1.0.1" };
  const v6 = { dst: "::/0", gw: "fd01::1" };

  test.each([
    { what: "both families", replaced: replacedWith([v4, v6]), after: [...eth0, ...net1] },
    { what: "IPv4", replaced: replacedWith([v4]), after: [...eth0, net1[0]] },
    {
      what: "IPv6 among other routes",
      replaced: replacedWith([{ dst: "10.7.0.0/16" }, v6]),
      after: [...eth0, net1[1]],
    },
    {
      what: "IPv6 by its plugins and IPv4 by its element",
      replaced: replacedWith([v4, v6], { defaultRoute: ["10.1.0.1"] }),
      after: [...eth0, net1[1]],
    },
    {
      what: "both by its element",
      replaced: replacedWith([v4, v6], { defaultRoute: [] }),
      after: eth0,
    },
    {
      what: "IPv4 in another table",
      replaced: replacedWith([{ ...v4, table: 100 }, v6]),
      after: [...eth0, net1[1]],
    },
    { what: "no result", replaced: { ...replacedWith([]), result: undefined }, after: eth0 },
  ])("a network keeps the families that the replaced one had: $what", async (row) => {
    const replaced = row.replaced as RecordedAttachment;
    await plug({ before: eth0, left: [...eth0, ...net1] }, { replaced });
    expect((await defaults()).toSorted()).toEqual(row.after.toSorted());
  });

  test.each([
    { lost: ["net1>10.1.0.9 3"], yields: [net1[0]] },
    { lost: ["net1>fd01::9 3"], yields: [net1[1]] },
    { lost: [], yields: [] },
  ])("a network yields the families that the replaced one had yielded: $lost", async (row) => {
    const replaced = replacedWith([], { yieldedRoutes: row.lost.map(yielded) });
    const { added } = await plug({ before: net2, left: [...net1, ...net2] }, { replaced });
    expect(await defaults()).toEqual(net2);
    expect(lostOf(added)).toEqual(row.yields);
  });

  test.each([
    {
      what: "with its own routes",
      requested: [],
      left: [...eth0, ...net1, ...net2],
      after: net1,
      yields: { eth0, net2, net1: [] },
    },
    {
      what: "with a gateway",
      requested: ["10.1.0.1"],
      left: [...eth0, "net1>10.1.0.9 5", ...net2],
      after: [net1[0], eth0[1], net2[1]],
      yields: { eth0: [eth0[0]], net2: [net2[0]], net1: [] },
    },
    {
      what: "whose plugins have taken them before",
      requested: [],
      left: net1,
      after: net1,
      yields: { eth0, net2, net1: [] },
    },
    {
      what: "without routes, whose plugins have removed some",
      requested: [],
      left: net2,
      after: [...net2, ...eth0],
      yields: { eth0: [], net2: [], net1: [] },
    },
  ] as {
    what: string;
    requested: string[];
    left: string[];
    after: string[];
    yields: Readonly<Record<string, readonly string[]>>;
  }[])("an element with default-route $what gets it from the others", async (row) => {
    const added = attachment("net1", { requested: row.requested });
    const routed = await plug({ before: [...eth0, ...net2], left: row.left }, { added });
    expect((await defaults()).toSorted()).toEqual(row.after.toSorted());
    const all = [...routed.earlier, routed.added];
    const yields = all.map((each) => [each.planned.ifName, lostOf(each)]);
    expect(yields).toEqual(["eth0", "net2", "net1"].map((name) => [name, row.yields[name]]));
  });

  test("an interface of two attachments keeps what its own element requests", async () => {
    const earlier = [attachment("eth0"), attachment("net2", { names: ["net1"] })];
    const added = attachment("net1", { requested: [] });
    const pod = { before: [...eth0, ...net2], left: [...eth0, ...net1, ...net2] };
    const routed = await plug(pod, { earlier, added });
    expect(await defaults()).toEqual(net1);
    expect(routed.earlier.map(lostOf)).toEqual([eth0, net2]);
  });
});

describe("routesAhead()", () => {
  test.each([
    { what: "nothing", lost: undefined, now: [], ahead: [] },
    { what: "what it has", lost: undefined, now: [...eth0, ...net2], ahead: eth0 },
    { what: "what it has lost", lost: eth0, now: net2, ahead: eth0 },
    { what: "what it has lost and got again once", lost: [...eth0], now: eth0, ahead: eth0 },
    { what: "one family of each", lost: [eth0[0]], now: [eth0[1]], ahead: eth0 },
    { what: "routes of two metrics", lost: ["eth0>10.0.0.1 9"], now: [eth0[0]] },
    { what: "routes of two gateways", lost: ["eth0>10.0.0.9 0"], now: [eth0[0]] },
    { what: "routes without gateways", lost: ["eth0>* 0"], now: ["eth0>** 0"] },
    { what: "its hops", now: ["eth0>10.0.0.1+net2>10.2.0.1 10"], ahead: ["eth0>10.0.0.1 10"] },
    {
      what: "the same gateway by each of its interfaces",
      names: ["net2"],
      lost: ["eth0>fe80::1 1024"],
      now: ["net2>fe80::1 1024"],
    },
  ] as {
    what: string;
    names?: string[];
    lost?: string[];
    now: string[];
    ahead?: string[];
  }[])("an interrupted plugging gives an attachment back $what", async (row) => {
    const { lost, now, names, ahead = [...(lost ?? []), ...now] } = row;
    await setDefaults(...now);
    const all = [attachment("eth0", { ...(lost && { lost }), ...(names && { names }) })];
    const [first] = routesAhead(await routesOfSandbox(ctx, netns), all);
    expect(first && lostOf(first)).toEqual(ahead);
  });
});

describe("giveBackRoutes()", () => {
  const rows = [
    { what: "both families", lost: eth0, now: [], after: eth0, left: [] },
    { what: "nothing to an attachment that has yielded nothing", lost: [], now: net2, after: net2 },
    { what: "nothing to one that may not have yielded", now: net2, after: net2 },
    { what: "what it has already", lost: eth0, now: eth0, after: eth0, left: [] },
    { what: "one family", lost: eth0, now: [eth0[1]], after: eth0, left: [] },
    {
      what: "the family that no other element has requested",
      lost: eth0,
      now: [],
      holders: [{ ifName: "net2", defaultRoute: ["10.2.0.1"] }],
      after: [eth0[1]],
      left: [eth0[0]],
    },
    {
      what: "nothing while another element has both",
      lost: eth0,
      now: net2,
      holders: [{ ifName: "net2", defaultRoute: [] }],
      after: net2,
    },
    {
      what: "its own, whatever it requests itself",
      lost: eth0,
      now: [],
      holders: [{ ifName: "eth0", defaultRoute: [] }, { ifName: "net2" }],
      after: eth0,
      left: [],
    },
    {
      what: "a route of another metric or gateway than it has",
      lost: ["eth0>10.0.0.1 5", "eth0>10.0.0.9 0", "eth0>* 0"],
      now: [eth0[0]],
      after: [eth0[0], "eth0>10.0.0.1 5", "eth0>10.0.0.9 0", "eth0>* 0"],
      left: [],
    },
    {
      what: "a route that another interface has",
      lost: ["eth0>fe80::1 1024"],
      now: ["net2>fe80::1 1024"],
      after: ["net2>fe80::1 1024", "eth0>fe80::1 1024"],
      left: [],
    },
    {
      what: "an onlink route, and one without a gateway",
      lost: ["eth0>169.254.1.1! 0", "eth0>** 1024"],
      now: [],
      after: ["eth0>169.254.1.1! 0", "eth0>** 1024"],
      left: [],
    },
    {
      what: "only the routes of interfaces that are there",
      lost: ["net1>10.1.0.1 0", ...eth0],
      now: [],
      after: eth0,
      left: [],
    },
  ] as readonly {
    what: string;
    lost?: string[];
    now: string[];
    holders?: { ifName: string; defaultRoute?: string[] }[];
    after: string[];
    /** What it still waits for; absent when it gets nothing. */
    left?: string[];
  }[];

  test.each(rows)("gives back $what", async ({ lost, now, holders = [], after, left }) => {
    await setDefaults(...now);
    const attached = [attachment("eth0", lost && { lost }), attachment("net2")];
    const recorded = holders as { ifName: string; defaultRoute?: string[] }[];
    const datagrams = kernel.datagrams;
    const given = await giveBackRoutes(ctx, netns, { attached, recorded });
    expect(kernel.datagrams > datagrams, "whether the kernel is asked").toBe(left !== undefined);
    expect((await defaults()).toSorted()).toEqual(after.toSorted());
    expect(given.map(lostOf)).toEqual(left === undefined ? [] : [left]);
    const routes = given.map(({ result }) => result.routes.map(({ gw }) => gw));
    const got = after.filter((each) => each.startsWith("eth0")).map((each) => yielded(each).gw);
    expect(routes.flat().toSorted()).toEqual(left === undefined ? [] : got.toSorted());
  });

  test("a route gets its MTU back, too", async () => {
    // RTAX_MTU 1450, as `ip route add … mtu 1450` sends it, and overlay networks of pods do.
    const metrics = "08000200aa050000";
    const route = newDefaultRoute({
      ...{ family: 4, ifIndex: indexOf("eth0"), gateway: "10.0.0.1", metric: 0, onlink: false },
      metrics,
    });
    await execute(kernel.transport, netns, [addRoute(route)]);
    const all = [attachment("eth0")];
    const attached = routesAhead(await routesOfSandbox(ctx, netns), all);
    await setDefaults();
    await giveBackRoutes(ctx, netns, { attached, recorded: [] });
    expect((await readDefaults()).map(metricsOf)).toEqual([metrics]);
  });

  test("a route that another program has added again is not added to it", async () => {
    const { wire, ...route } = parseRoute("eth0>10.0.0.1 0");
    const header = { ...wire.header, protocol: RouteProtocol.STATIC };
    await execute(kernel.transport, netns, [addRoute({ ...route, wire: { ...wire, header } })]);
    const attached = [attachment("eth0", { lost: ["eth0>10.0.0.1 0"] })];
    const given = await giveBackRoutes(ctx, netns, { attached, recorded: [] });
    expect(await defaults()).toEqual(["eth0>10.0.0.1 0"]);
    expect(given.map(lostOf)).toEqual([[]]);
  });

  test("an interface of two attachments gets its route once", async () => {
    await setDefaults();
    const lost = { lost: ["eth0>10.0.0.1 0"] };
    const attached = [attachment("eth0", lost), attachment("net2", { ...lost, names: ["eth0"] })];
    const given = await giveBackRoutes(ctx, netns, { attached, recorded: [] });
    expect(await defaults()).toEqual(["eth0>10.0.0.1 0"]);
    expect(given.map(lostOf)).toEqual([[], []]);
  });
});
