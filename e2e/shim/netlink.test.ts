// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { eachBuild, type NetlinkResult } from "./lab/harness.ts";

const RTM_NEWLINK = 16;
const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
const REQUEST = 1;
const ACK = 4;
const DUMP = 0x300;

/** A link message with no attributes, or only a name to look it up by. */
function linkMessage(type: number, { flags = 0, seq = 1, name = "" }): Buffer {
  const length = name ? 4 + name.length + 1 : 0;
  const bytes = Buffer.alloc(32 + ((length + 3) & ~3));
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt16LE(REQUEST | flags, 6);
  bytes.writeUInt32LE(seq, 8);
  if (name) {
    bytes.writeUInt16LE(length, 32);
    bytes.writeUInt16LE(3, 34); // IFLA_IFNAME
    bytes.write(name, 36);
  }
  return bytes;
}

/** The message types, link names and errors in a reply. */
function readReply(bytes: Buffer): { types: number[]; names: string[]; errors: number[] } {
  const reply = { types: [] as number[], names: [] as string[], errors: [] as number[] };
  for (let at = 0; at < bytes.length; at += (bytes.readUInt32LE(at) + 3) & ~3) {
    const type = bytes.readUInt16LE(at + 4);
    reply.types.push(type);
    if (type === 2) reply.errors.push(bytes.readInt32LE(at + 16));
    if (type !== RTM_NEWLINK) continue;
    for (let a = at + 32; a < at + bytes.readUInt32LE(at); a += (bytes.readUInt16LE(a) + 3) & ~3)
      if (bytes.readUInt16LE(a + 2) === 3)
        reply.names.push(bytes.toString("latin1", a + 4, a + bytes.readUInt16LE(a) - 1));
  }
  return reply;
}

eachBuild("netlink", (bench) => {
  const name = `plexus-shim-${process.pid}`;
  const netns = `/run/netns/${name}`;
  beforeEach(() => {
    execFileSync("ip", ["netns", "add", name]);
    execFileSync("ip", ["-n", name, "link", "add", "inside0", "type", "veth", "peer", "inside1"]);
  });
  afterEach(() => void execFileSync("ip", ["netns", "del", name]));

  /** Sends these requests in one call with this environment. */
  const passIn = async (env: Record<string, string>, ...orders: [string, Uint8Array][]) => {
    const answers: NetlinkResult[] = [];
    await bench().engine(async (engine) => {
      for (const [path, bytes] of orders) answers.push(await engine.netlink(path, bytes));
      engine.done();
    });
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    return answers;
  };
  const pass = (...orders: [string, Uint8Array][]) => passIn({ CNI_NETNS: netns }, ...orders);

  test("a dump in a network namespace is returned in full, up to its NLMSG_DONE", async () => {
    const [answer] = await pass([netns, linkMessage(RTM_GETLINK, { flags: DUMP })]);
    expect(answer).toMatchObject({ errno: 0, message: "", stage: "done" });
    const { types, names } = readReply(answer!.bytes);
    expect(names).toEqual(expect.arrayContaining(["lo", "inside0", "inside1"]));
    expect(types.at(-1)).toBe(3);
  });

  test("a dump of several datagrams is returned in one answer", async () => {
    const links = Array.from({ length: 60 }, (_, i) => `link add d${i} type veth peer e${i}`).join(
      "\n",
    );
    execFileSync("ip", ["-n", name, "-batch", "-"], { input: links });
    const [answer] = await pass([netns, linkMessage(RTM_GETLINK, { flags: DUMP })]);
    expect(answer!.bytes.length).toBeGreaterThan(65536);
    expect(readReply(answer!.bytes).names).toEqual(expect.arrayContaining(["d0", "e59"]));
  });

  test.each([
    ["ADD", ["PLEXUS_NETNS=ok", "PLEXUS_LINKS=lo/inside1/inside0/"]],
    ["DEL", ["PLEXUS_NETNS=ok"]],
    ["CHECK", ["PLEXUS_NETNS=ok"]],
  ])("the request of %s has %j", async (CNI_COMMAND, variables) => {
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done();
    });
    await bench().run({ env: { CNI_COMMAND, CNI_NETNS: netns } });
    expect(fields.filter((field) => field.startsWith("PLEXUS_"))).toEqual(variables);
  });

  test("delegates run in the shim's own namespace, even after a request in another one", async () => {
    bench().plugin("p", "readlink /proc/self/ns/net");
    let after = "";
    await bench().engine(async (engine) => {
      const inside = await engine.netlink(netns, linkMessage(RTM_GETLINK, { flags: DUMP }));
      expect(readReply(inside.bytes).names).toContain("inside0");
      after = (await engine.exec({ type: "p", path: bench().bin })).stdout.trim();
      engine.done();
    });
    await bench().run();
    expect(after).toBe(readlinkSync("/proc/self/ns/net"));
  });

  test("a change returns the kernel's acknowledgement, or its error", async () => {
    const remove = linkMessage(RTM_DELLINK, { flags: ACK, seq: 7, name: "inside0" });
    const answers = await pass([netns, remove], [netns, remove]);
    expect(answers.map(({ errno }) => errno)).toEqual([0, 0]);
    expect(answers.map(({ bytes }) => readReply(bytes).errors)).toEqual([[0], [-19]]);
  });

  test("several messages in one order are all answered", async () => {
    const both = ["inside0", "nosuch0"].map((link, i) =>
      linkMessage(RTM_GETLINK, { flags: ACK, seq: i + 1, name: link }),
    );
    const [answer] = await pass([netns, Buffer.concat(both)]);
    expect(answer!.errno).toBe(0);
    const { names, errors } = readReply(answer!.bytes);
    expect([names, errors]).toEqual([["inside0"], [0, -19]]);
  });

  test.each([
    ["/nonexistent/ns", 2],
    ["/dev/null", 22],
    ["/proc/self/ns/mnt", 22],
    ["/etc/passwd/x", 20],
    ["a FIFO, which would block", 22],
  ])("a request with path %s fails with errno %i", async (name, errno) => {
    const path = name.startsWith("/") ? name : join(bench().dir, "fifo");
    if (path !== name) execFileSync("mkfifo", [path]);
    const [answer] = await pass([path, linkMessage(RTM_GETLINK, { flags: DUMP })]);
    expect(answer).toEqual({
      errno,
      bytes: Buffer.of(),
      message: errno === 22 ? "not a network namespace" : "cannot open the network namespace",
      stage: "open",
    });
  });

  test("bytes that are not well-formed messages are rejected with EINVAL", async () => {
    const good = linkMessage(RTM_GETLINK, { flags: DUMP });
    const [short, long] = [15, 33].map((length) => {
      const bytes = Buffer.from(good);
      bytes.writeUInt32LE(length, 0);
      return bytes;
    }) as [Buffer, Buffer];
    const longer = Buffer.concat([good, Buffer.of(1)]);
    const bad = [Buffer.of(), Buffer.alloc(15), Buffer.alloc(16), short, long, longer];
    for (const answer of await pass(...bad.map((bytes): [string, Buffer] => [netns, bytes])))
      expect(answer).toMatchObject({
        errno: 22,
        stage: "request",
        message: "not a well-formed chain of netlink messages",
      });
  });

  test("a request that the kernel never answers times out after five seconds", async () => {
    const [answer] = await pass([netns, linkMessage(RTM_DELLINK, { name: "inside0" })]);
    expect(answer).toMatchObject({
      errno: 110,
      message: "netlink request failed",
      stage: "request",
    });
  });

  test.each([
    ["a namespace without a path", ""],
    ["the shim's own namespace", "/proc/self/ns/net"],
    ["another pod's namespace", "other"],
  ])("nothing can be changed in %s [S-103]", async (_, path) => {
    const target = path === "other" ? bench().netns() : path;
    const remove = linkMessage(RTM_DELLINK, { flags: ACK, name: "nosuch0" });
    const read = linkMessage(RTM_GETLINK, { flags: ACK, name: "nosuch0" });
    const answers = await pass([target, remove], [target, Buffer.concat([read, remove])]);
    for (const answer of answers) {
      expect(answer).toMatchObject({ errno: 1, bytes: Buffer.of(), stage: "request" });
      expect(answer.message).toMatch(/^refused: /);
    }
  });

  test("another pod's namespace and the shim's own can be read [S-113]", async () => {
    const dump = linkMessage(RTM_GETLINK, { flags: DUMP });
    for (const answer of await pass([bench().netns(), dump], ["/proc/self/ns/net", dump]))
      expect(answer).toMatchObject({ errno: 0, stage: "done" });
  });

  test.each([
    ["", { errno: 1, stage: "request" }],
    ["0", { errno: 1, stage: "request" }],
    ["1", { errno: 0, stage: "done" }],
    ["True", { errno: 0, stage: "done" }],
  ])(
    "a change in the runtime's own namespace with CNI_NETNS_OVERRIDE=%j returns %j",
    async (CNI_NETNS_OVERRIDE, expected) => {
      const own = "/proc/self/ns/net";
      const remove = linkMessage(RTM_DELLINK, { flags: ACK, name: "nosuch0" });
      const [answer] = await passIn({ CNI_NETNS: own, CNI_NETNS_OVERRIDE }, [own, remove]);
      expect(answer).toMatchObject(expected);
    },
  );
});
