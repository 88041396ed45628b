import { formatMessage, putS32 } from "netlink/dist/structs.js";
import { describe, expect, test } from "vitest";
import { dump, execute, type NetlinkTransport } from "./codec.ts";
import { listAddresses, listLinks } from "./links.ts";
import { addRoute, deleteRoute, listRoutes, withHops } from "./routes.ts";

interface Answer {
  readonly type: number;
  readonly flags?: number;
  readonly seq?: number;
  readonly data: Uint8Array;
}

function answering(...datagrams: Answer[][]): NetlinkTransport {
  return () => {
    const answers = (datagrams.shift() ?? []).flatMap(({ type, flags = 2, seq = 1, data }) =>
      formatMessage({ type, flags, seq, port: 0, data }),
    );
    return Promise.resolve(Buffer.concat(answers));
  };
}

const done: Answer = { type: 3, data: putS32(0) };
const error = (errno: number, seq = 1): Answer => ({
  type: 2,
  flags: 0,
  seq,
  data: Buffer.concat([putS32(-errno), Buffer.alloc(16)]),
});
const request = { type: 26, header: new Uint8Array(12) };
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ""), "hex");
const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

describe("dump()", () => {
  test("retries a dump that was interrupted", async () => {
    const part = (byte: number, flags: number): Answer => ({
      type: 24,
      flags,
      data: Buffer.alloc(4, byte),
    });
    const transport = answering([part(1, 2 | 16), done], [part(2, 2), done]);
    expect(await dump(transport, "", request)).toEqual([Buffer.alloc(4, 2)]);
  });

  test.each<[string, Answer[], string]>([
    ["refused", [error(1)], "the kernel refuses to dump: EPERM"],
    ["failed at its end", [{ type: 3, data: putS32(-105) }], "the kernel refuses to dump: ENOBUFS"],
    ["refused with an unknown errno", [error(512)], "refuses to dump: errno 512"],
    ["cut off", [{ type: 24, data: new Uint8Array(4) }], "has no end"],
    ["empty", [], "has no end"],
  ])("throws when the dump is %s", async (_, answers, message) => {
    await expect(dump(answering(answers), "", request)).rejects.toThrow(message);
  });

  test("throws when the answer is not a netlink message", async () => {
    await expect(dump(() => Promise.resolve(Buffer.alloc(20, 255)), "", request)).rejects.toThrow(
      "cannot be decoded",
    );
  });
});

describe("execute()", () => {
  const edit = { type: 24, flags: 0, data: new Uint8Array(12) };

  test("returns the errno of each request, whatever the order of the answers", async () => {
    const transport = answering([error(17, 2), error(0, 1)]);
    expect(await execute(transport, "", [edit, edit])).toEqual([undefined, "EEXIST"]);
  });

  test("throws when an acknowledgement is missing", async () => {
    await expect(execute(answering([error(0)]), "", [edit, edit])).rejects.toThrow(
      "did not acknowledge request 2",
    );
  });
});

describe.runIf(littleEndian)("messages recorded from a kernel", () => {
  test("listLinks() reads an interface", async () => {
    const data = hex(`
      00 00 01 00 02 00 00 00 43 10 01 00 00 00 00 00
      09 00 03 00 6e 65 74 31 00 00 00 00
      08 00 04 00 dc 05 00 00
      0a 00 01 00 02 00 00 00 00 0a 00 00`);
    expect(await listLinks(answering([{ type: 16, data }, done]), "")).toEqual([
      { index: 2, name: "net1", flags: 0x11043, mtu: 1500, mac: "02:00:00:00:00:0a" },
    ]);
  });

  test("listLinks() reads alternative names", async () => {
    // `ip link property add dev net1 altname storage altname br-a`: IFLA_PROP_LIST is nested.
    const data = hex(`
      00 00 01 00 02 00 00 00 43 10 01 00 00 00 00 00
      09 00 03 00 6e 65 74 31 00 00 00 00
      20 00 34 80
        0c 00 35 00 73 74 6f 72 61 67 65 00
        09 00 35 00 62 72 2d 61 00 00 00 00
        04 00 63 00`);
    expect(await listLinks(answering([{ type: 16, data }, done]), "")).toEqual([
      { index: 2, name: "net1", altNames: ["storage", "br-a"], flags: 0x11043, mtu: 0 },
    ]);
  });

  test("listAddresses() returns the local end of a peer address, and skips other families", async () => {
    const peer = hex("02 20 80 00 02 00 00 00  08 00 01 00 0a 00 00 01  08 00 02 00 0a 00 00 02");
    const bridge = hex("07 00 00 00 02 00 00 00");
    const v6 = hex(
      "0a 40 80 00 03 00 00 00  14 00 01 00 fd 01 00 00 00 00 00 00 00 00 00 00 00 00 00 02",
    );
    const linkLocal = hex(
      "0a 40 80 fd 03 00 00 00  14 00 01 00 fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 02",
    );
    const answers: Answer[] = [peer, bridge, v6, linkLocal].map((data) => ({ type: 20, data }));
    expect(await listAddresses(answering([...answers, done]), "")).toEqual([
      { ifIndex: 2, family: 4, address: "10.0.0.2", prefix: 32, isGlobal: true },
      { ifIndex: 3, family: 6, address: "fd01::2", prefix: 64, isGlobal: true },
      { ifIndex: 3, family: 6, address: "fe80::2", prefix: 64, isGlobal: false },
    ]);
  });

  /** `default metric 10 nexthop via 10.0.0.1 dev if2 linkdown nexthop via inet6 fe80::1 dev if3 weight 5`. */
  const multipath = hex(`
    02 00 00 00 fe 03 00 01 00 00 00 00
    08 00 0f 00 fe 00 00 00
    08 00 06 00 0a 00 00 00
    34 00 09 00
      10 00 10 00 02 00 00 00 08 00 05 00 0a 00 00 01
      20 00 04 04 03 00 00 00 16 00 12 00 0a 00 fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00`);

  test("listRoutes() skips other tables, types and sources", async () => {
    const route = (header: string): Answer => ({
      type: 24,
      data: hex(`${header} 08 00 04 00 02 00 00 00`),
    });
    const answers = [
      route("02 18 00 00 ff 02 fd 01 00 00 00 00"),
      route("02 00 00 00 fe 02 fd 07 00 00 00 00"),
      route("0a 00 40 00 fe 02 fd 01 00 00 00 00"),
      { type: 24, data: hex("02 00 00 00 fc 02 fd 01 00 00 00 00 08 00 0f 00 e8 03 00 00") },
      route("02 18 00 00 fe 02 fd 01 00 00 00 00"),
    ];
    const routes = await listRoutes(answering([...answers, done]), "", 4);
    expect(routes.map(({ dst, hops }) => [dst, hops])).toEqual([
      [{ address: "0.0.0.0", prefix: 24 }, [{ ifIndex: 2, onlink: false }]],
    ]);
  });

  test("addRoute() writes a multipath route without its state, also with only some hops", async () => {
    const [route] = await listRoutes(answering([{ type: 24, data: multipath }, done]), "", 4);
    expect(route).toMatchObject({
      metric: 10,
      hops: [
        { ifIndex: 2, gateway: "10.0.0.1", onlink: false },
        { ifIndex: 3, gateway: "fe80::1", onlink: true },
      ],
    });
    if (route === undefined) return;
    const stateless = Buffer.from(multipath);
    stateless[34] = 0;
    expect(Buffer.from(addRoute(route).data)).toEqual(stateless);
    const lastHop = Buffer.concat([
      stateless.subarray(0, 28),
      hex("24 00 09 00"),
      stateless.subarray(48),
    ]);
    expect(Buffer.from(addRoute(withHops(route, route.hops.slice(1))).data)).toEqual(lastHop);
  });

  test("deleteRoute() writes a route by nexthop object without the hops of that object", async () => {
    const data = hex(`
      02 00 00 00 fe 03 00 01 00 00 00 00
      08 00 05 00 0a 00 00 01  08 00 04 00 02 00 00 00  08 00 1e 00 07 00 00 00`);
    const [route] = await listRoutes(answering([{ type: 24, data }, done]), "", 4);
    expect(route?.hops).toEqual([{ ifIndex: 2, gateway: "10.0.0.1", onlink: false }]);
    const sent = route && Buffer.from(deleteRoute(route).data);
    expect(sent).toEqual(Buffer.concat([data.subarray(0, 12), data.subarray(28)]));
  });
});
