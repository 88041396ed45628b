import { execFileSync, spawn } from "node:child_process";
import { readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { eachBuild, type NetlinkResult } from "../lab/harness.ts";
import {
  ACK,
  addRoute,
  DUMP,
  deleteRoute,
  linkMessage,
  message,
  RTM_DELROUTE,
  RTM_GETLINK,
  RTM_GETROUTE,
  readReply,
  routeMessage,
  toLo,
} from "../lab/netlink-messages.ts";

eachBuild("netlink", (bench) => {
  const name = `plexus-shim-${process.pid}`;
  const netns = `/run/netns/${name}`;
  beforeEach(() => {
    execFileSync("ip", ["netns", "add", name]);
    execFileSync("ip", ["-n", name, "link", "add", "inside0", "type", "veth", "peer", "inside1"]);
    execFileSync("ip", ["-n", name, "link", "set", "lo", "up"]);
  });
  afterEach(() => void execFileSync("ip", ["netns", "del", name]));

  /** Sends these requests in one call with this environment. */
  const passIn = async (
    env: Record<string, string>,
    ...orders: (readonly [string, Uint8Array])[]
  ) => {
    const answers: NetlinkResult[] = [];
    await bench().engine(async (engine) => {
      for (const [path, bytes] of orders) answers.push(await engine.netlink(path, bytes));
      engine.done();
    });
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    return answers;
  };
  const pass = (...orders: (readonly [string, Uint8Array])[]) =>
    passIn({ CNI_NETNS: netns }, ...orders);

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
    ["ADD", ["PLEXUS_NETNS=ok", "PLEXUS_LINKS=lo/inside1/inside0/", "PLEXUS_ALIVE=yes"]],
    ["DEL", ["PLEXUS_NETNS=ok", "PLEXUS_STARTED_MONOTONIC_US=N", "PLEXUS_ALIVE=yes"]],
    ["CHECK", ["PLEXUS_NETNS=ok", "PLEXUS_ALIVE=yes"]],
  ])("the request of %s has %j", async (CNI_COMMAND, variables) => {
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done();
    });
    await bench().run({ env: { CNI_COMMAND, CNI_NETNS: netns } });
    const sent = fields.filter((field) => field.startsWith("PLEXUS_"));
    expect(sent.map((field) => field.replace(/=\d+$/, "=N"))).toEqual(variables);
  });

  test("the request has no interfaces if they changed while they were listed", async () => {
    const links = Array.from({ length: 400 }, (_, i) => `link add d${i} type veth peer e${i}`);
    execFileSync("ip", ["-n", name, "-batch", "-"], { input: links.join("\n") });
    const ip = `ip -n ${name} link`;
    const change = `while ${ip} add x type ifb && ${ip} del x; do :; done`;
    const changes = spawn("sh", ["-c", change], { stdio: "ignore" });
    onTestFinished(() => void changes.kill());
    let isTold = true;
    await bench().engine((engine) => {
      isTold = engine.request.fields.some((field) => String(field).startsWith("PLEXUS_LINKS="));
      engine.done();
    });
    await waitUntil("they have changed", async () => {
      await bench().run({ env: { CNI_NETNS: netns } });
      return !isTold;
    });
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
    const answers = await pass([netns, addRoute], [netns, deleteRoute], [netns, deleteRoute]);
    expect(answers.map(({ errno }) => errno)).toEqual([0, 0, 0]);
    expect(answers.map(({ bytes }) => readReply(bytes).errors)).toEqual([[0], [0], [-3]]);
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

  /** What is in its directory at a path that is no namespace. */
  const elsewhere = {
    "nothing, in no directory": "/nonexistent/ns",
    "nothing, behind a file": "/etc/passwd/x",
    "a file": "/etc/passwd",
    "a file that plexusd made": "file",
    "a directory": "/etc",
    "a device": "/dev/null",
    "a process that does not run": "/proc/4194304/ns/net",
    "a socket, which cannot be opened": "socket",
    "a FIFO": "fifo",
    "a link to itself": "loop",
    "a name that is too long, in a directory": `/etc/${"x".repeat(256)}`,
    "a path that is too long": `/etc/${"./".repeat(2048)}passwd`,
  };

  test("plexusd learns nothing of a path that is no network namespace [S-110]", async () => {
    const { dir } = bench();
    execFileSync("sh", ["-c", "mkfifo fifo; ln -s loop loop; echo x >file"], { cwd: dir });
    await bench().engine(() => undefined, join(dir, "socket"));
    const paths = Object.values(elsewhere).map((path) => resolve(dir, path));
    const dump = linkMessage(RTM_GETLINK, { flags: DUMP });
    for (const [index, answer] of (
      await pass(...paths.map((path) => [path, dump] as const))
    ).entries())
      expect(answer, Object.keys(elsewhere)[index]).toEqual({
        ...{ errno: 2, bytes: Buffer.of(), stage: "open" },
        message: "there is no network namespace at that path",
      });
  });

  test.each(["unmounted", "/proc/self/ns/mnt"])(
    "an empty file has its own errno, as a namespace may be mounted there for others: %s",
    async (name) => {
      const path = resolve(bench().dir, name);
      if (path !== name) writeFileSync(path, "");
      const [answer] = await pass([path, linkMessage(RTM_GETLINK, { flags: DUMP })]);
      const message = "there is no network namespace at that path";
      expect(answer).toMatchObject({ errno: 22, message, stage: "open" });
    },
  );

  test("what is at such a path is not opened, as that alone can have an effect [S-110]", async () => {
    const fifo = join(bench().dir, "fifo");
    execFileSync("mkfifo", [fifo]);
    const writer = spawn("sh", ["-c", `echo unopened > ${fifo}`]);
    await waitUntil(
      "the writer waits for a reader",
      () =>
        readFileSync(`/proc/${writer.pid}/wchan`, "utf8").includes("wait_for_partner") || undefined,
    );
    const dump = linkMessage(RTM_GETLINK, { flags: DUMP });
    await passIn(
      { CNI_NETNS: fifo, CNI_COMMAND: "DEL" },
      [fifo, dump],
      [`${netns}/../${name}`, dump],
    );
    expect(execFileSync("timeout", ["10", "cat", fifo], { encoding: "utf8" })).toBe("unopened\n");
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
    const silent = routeMessage(RTM_DELROUTE, { flags: 0, attributes: toLo });
    const [, answer] = await pass([netns, addRoute], [netns, silent]);
    expect(answer).toMatchObject({
      errno: 110,
      message: "netlink request failed",
      stage: "request",
    });
  });

  test("a request that is too large for the kernel returns its error", async () => {
    const read = linkMessage(RTM_GETLINK, { flags: ACK, name: "lo" });
    const [answer] = await pass([netns, Buffer.concat(Array(20_000).fill(read))]);
    expect(answer).toMatchObject({
      errno: 90,
      message: "netlink request failed",
      stage: "request",
    });
  });

  test("a dump of more than 8 MiB is given up", async () => {
    const metrics =
      "mtu 1400 advmss 1300 window 1000 rtt 10 rttvar 10 ssthresh 10 cwnd 10 initcwnd 10 " +
      "initrwnd 10 hoplimit 64 reordering 3 rto_min 5 quickack 1";
    const input = Array.from(
      { length: 60_000 },
      (_, i) => `route add 10.9.${i >> 8}.${i & 255} dev lo ${metrics}`,
    ).join("\n");
    execFileSync("ip", ["-n", name, "-batch", "-"], { input });
    const dump = message(RTM_GETROUTE, { flags: DUMP, fixed: Buffer.alloc(12) });
    const [answer] = await pass([netns, dump]);
    expect(answer).toMatchObject({
      errno: 90,
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
    const read = linkMessage(RTM_GETLINK, { flags: ACK, name: "nosuch0" });
    const answers = await pass([target, deleteRoute], [target, Buffer.concat([read, deleteRoute])]);
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
      const [answer] = await passIn({ CNI_NETNS: own, CNI_NETNS_OVERRIDE }, [own, deleteRoute]);
      expect(answer).toMatchObject(expected);
    },
  );
});
