import { execFileSync } from "node:child_process";
import { beforeEach, expect, test } from "vitest";
import { type Bench, eachBuild, type NetlinkResult } from "../lab/harness.ts";
import {
  ACK,
  type Attribute,
  addRoute,
  CREATE,
  hop,
  IFLA,
  linkMessage,
  message,
  nested,
  RTA,
  RTM_DELLINK,
  RTM_DELROUTE,
  RTM_GETLINK,
  RTM_NEWLINK,
  RTM_NEWNSID,
  RTM_NEWROUTE,
  readReply,
  routeMessage,
  toLo,
  u32,
} from "../lab/netlink-messages.ts";

const refused = {
  ...{ errno: 1, bytes: Buffer.of(), stage: "request" },
  message: "refused: a netlink message or an attribute that Plexus does not use",
};

function links(netns: string): string[] {
  const json = execFileSync("nsenter", [`--net=${netns}`, "ip", "-j", "link"], {
    encoding: "utf8",
  });
  return JSON.parse(json).map(({ ifname }: { ifname: string }) => ifname);
}

/** An ADD whose engine sends these messages for the pod's namespace. */
async function send(
  bench: Bench,
  { pod, node }: { pod: string; node?: string },
  messages: (shimPid: number) => readonly Uint8Array[],
): Promise<NetlinkResult[]> {
  const answers: NetlinkResult[] = [];
  const pid = Promise.withResolvers<number>();
  const server = await bench.engine(async (engine) => {
    for (const bytes of messages(await pid.promise)) answers.push(await engine.netlink(pod, bytes));
    engine.done();
  });
  const { child, ended } = bench.start({ env: { CNI_NETNS: pod }, ...(node && { node }) });
  pid.resolve(child.pid ?? 0);
  expect(await ended).toMatchObject({ code: 0 });
  server.close();
  return answers;
}

eachBuild("a netlink order of a stolen plexusd", (bench) => {
  let node: string;
  let pod: string;
  beforeEach(() => {
    [node, pod] = [bench().netns(), bench().netns()];
    execFileSync("nsenter", [`--net=${node}`, "ip", "link", "add", "cni0", "type", "bridge"]);
  });

  const attacks: Record<string, (shimPid: number) => readonly Uint8Array[]> = {
    "a veth whose peer is in the node's namespace (IFLA_NET_NS_PID)": (shimPid) => {
      const text = (value: string): Buffer => Buffer.from(`${value}\0`);
      const peer: Attribute[] = [
        [IFLA.ifName, text("evil0")],
        [IFLA.netNsPid, u32(shimPid)],
      ];
      const info = nested(
        [1, text("veth")],
        [2, nested([1, Buffer.concat([Buffer.alloc(16), nested(...peer)])])],
      );
      const attributes: Attribute[] = [
        [IFLA.ifName, text("inside0")],
        [IFLA.linkInfo, info],
      ];
      const parts = { flags: ACK | CREATE, fixed: Buffer.alloc(16), attributes };
      return [message(RTM_NEWLINK, parts)];
    },
    "the node's namespace by a number, and then its bridge (IFLA_TARGET_NETNSID)": (shimPid) => [
      message(RTM_NEWNSID, {
        ...{ flags: ACK, fixed: Buffer.alloc(4) },
        attributes: [
          [1, u32(7)],
          [2, u32(shimPid)],
        ],
      }),
      message(RTM_DELLINK, {
        ...{ flags: ACK, fixed: Buffer.alloc(16) },
        attributes: [
          [IFLA.ifName, Buffer.from("cni0\0")],
          [IFLA.targetNetnsId, u32(7)],
        ],
      }),
    ],
  };

  test.each(Object.keys(attacks))("does nothing with %s [S-103]", async (name) => {
    const answers = await send(bench(), { pod, node }, attacks[name]!);
    expect(links(node)).toEqual(["lo", "cni0"]);
    expect(links(pod)).toEqual(["lo"]);
    for (const answer of answers) expect(answer).toEqual(refused);
  });

  test("is refused for every type but the five that Plexus uses [S-103]", async () => {
    const types = Array.from({ length: 136 }, (_, type) => type);
    /** Of RTM_GETADDR and of routes: more would be attributes. */
    const fixedLength: Record<number, number> = { 22: 8, 24: 12, 25: 12, 26: 12 };
    const answers = await send(bench(), { pod }, () =>
      types.map((type) =>
        message(type, { flags: ACK, fixed: Buffer.alloc(fixedLength[type] ?? 16) }),
      ),
    );
    const allowed = types.filter((type) => answers[type]?.message !== refused.message);
    expect(allowed).toEqual([18, 22, 24, 25, 26]);
  });

  const route = (...attributes: Attribute[]) => routeMessage(RTM_NEWROUTE, { attributes });
  const cut = Buffer.from(addRoute);
  cut.writeUInt16LE(9, cut.length - 8);
  const short = Buffer.from(addRoute);
  short.writeUInt16LE(3, short.length - 8);
  const read = linkMessage(RTM_GETLINK, { name: "lo" });
  const withLength = (bytes: Buffer, length: number): Buffer => {
    const copy = Buffer.from(bytes.subarray(0, length));
    copy.writeUInt32LE(length, 0);
    return copy;
  };

  test.each<[string, Uint8Array]>([
    ["a link of another namespace", linkWith([IFLA.targetNetnsId, u32(7)])],
    ["an unknown attribute of a link", linkWith([4095, u32(7)])],
    ["that attribute with the flag for nesting", linkWith([0x8000 | IFLA.targetNetnsId, u32(7)])],
    ["a route's encapsulation", route(...toLo, [RTA.encapType, Buffer.of(1, 0)])],
    ["an unknown attribute of a route", route(...toLo, [31, u32(1)])],
    ["an attribute of a route whose number wraps around", route(...toLo, [32 + RTA.dst, u32(1)])],
    ["the encapsulation of a next hop", route([RTA.multipath, hop([RTA.encap, u32(0)])])],
    ["a next hop with a device of another", route([RTA.multipath, hop([RTA.oif, u32(1)])])],
    ["next hops in a next hop", route([RTA.multipath, hop([RTA.multipath, hop()])])],
    ["a next hop that is cut off", route([RTA.multipath, hop().subarray(0, 4)])],
    [
      "a next hop that is longer than its attribute",
      route([RTA.multipath, hop([RTA.gateway, u32(1)]).subarray(0, 12)]),
    ],
    ["another family than IP", routeMessage(RTM_NEWROUTE, { family: 28, attributes: toLo })],
    ["a route with an attribute of length 3", short],
    ["a route with an attribute beyond its end", cut],
    ["a route without its fixed part", withLength(addRoute, 20)],
    ["a link without its fixed part", withLength(read, 20)],
    [
      "a message of another type after an allowed one",
      Buffer.concat([addRoute, linkMessage(RTM_DELLINK, {})]),
    ],
    [
      "such a message before an allowed one",
      Buffer.concat([linkMessage(RTM_DELLINK, {}), addRoute]),
    ],
  ])("is refused if it has %s [S-103]", async (_, bytes) => {
    expect(await send(bench(), { pod }, () => [bytes])).toEqual([refused]);
  });

  test.each<[string, Attribute[]]>([
    ["metrics", [[RTA.metrics, nested([2, u32(1400)], [8, u32(1360)])]]],
    [
      "a table, a metric and a source",
      [
        [RTA.table, u32(254)],
        [RTA.priority, u32(5)],
        [RTA.prefSrc, Buffer.of(127, 0, 0, 1)],
      ],
    ],
    ["flow", [[RTA.flow, u32(0)]]],
  ])("passes a route with %s", async (_, more) => {
    execFileSync("nsenter", [`--net=${pod}`, "ip", "link", "set", "lo", "up"]);
    const attributes = [...toLo, ...more];
    const answers = await send(bench(), { pod }, () => [
      routeMessage(RTM_NEWROUTE, { flags: ACK | CREATE, attributes }),
      routeMessage(RTM_DELROUTE, { attributes }),
    ]);
    expect(answers.map(({ bytes }) => readReply(bytes).errors)).toEqual([[0], [0]]);
  });

  test("passes a route with several next hops", async () => {
    const setUp = "link set lo up; address add 10.8.0.1/24 dev lo";
    execFileSync("nsenter", [`--net=${pod}`, "ip", "-batch", "-"], {
      input: setUp.replace("; ", "\n"),
    });
    const attributes: Attribute[] = [
      [RTA.dst, Buffer.of(10, 9, 0, 0)],
      [
        RTA.multipath,
        Buffer.concat([
          hop([RTA.gateway, Buffer.of(10, 8, 0, 7)]),
          hop([RTA.via, Buffer.of(2, 0, 10, 8, 0, 8)]),
        ]),
      ],
    ];
    const add = routeMessage(RTM_NEWROUTE, { flags: ACK | CREATE, attributes });
    const [answer] = await send(bench(), { pod }, () => [add]);
    expect(readReply(answer!.bytes).errors).toEqual([0]);
  });

  function linkWith(...attributes: Attribute[]): Buffer {
    return message(RTM_GETLINK, { flags: ACK, fixed: Buffer.alloc(16), attributes });
  }
});
