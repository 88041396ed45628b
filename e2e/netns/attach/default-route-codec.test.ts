import { expect } from "vitest";
import { applyDefaultRoute, type DefaultRouteRequest } from "#engine/add/default-route/apply.ts";
import { listAddresses, listLinks } from "#netlink/links.ts";
import type { NetnsLab } from "../../support/node/netns-lab.ts";
import { test as nodeTest } from "../../support/node/test.ts";

/**
 * The default-route codecs against the kernel itself. The transport is netlink's own native socket, in a process
 * inside the pod's namespace; Plexus' bundle does not have it and goes through the shim.
 */
const netlinkProcess = `
const { RawNetlinkSocket } = require(process.argv[1] + "/node_modules/netlink/dist/raw.js");
const { parseMessages } = require(process.argv[1] + "/node_modules/netlink/dist/structs.js");
const request = Buffer.from(process.argv[2], "hex");
const last = parseMessages(request).at(-1).seq;
const socket = new RawNetlinkSocket(0);
const answers = [];
socket.on("message", (bytes) => {
  answers.push(bytes);
  if (!parseMessages(bytes).some(({ seq, type }) => seq === last && (type === 2 || type === 3))) return;
  process.stdout.write(Buffer.concat(answers).toString("hex"));
  socket.close();
});
socket.send(request);
`;

/** An address family as `ip` takes it. */
type Family = "-4" | "-6";

/**
 * A pod with eth0 (10.0.0.2/24, fd00::2/64) and net1 (10.1.0.2/24, fd01::2/64); eth0 has the default routes of
 * both families.
 */
class RoutedPod {
  readonly netns: string;
  /** How many requests have gone to the kernel through {@link transport}. */
  datagrams = 0;
  readonly #lab: NetnsLab;

  private constructor(lab: NetnsLab, netns: string) {
    this.#lab = lab;
    this.netns = netns;
  }

  static async create(lab: NetnsLab, netns: string): Promise<RoutedPod> {
    const pod = new RoutedPod(lab, netns);
    await lab.addNetns(netns);
    for (const [number, name] of ["eth0", "net1"].entries()) {
      await pod.addInterface(name, `10.${number}.0.2/24`);
      await pod.ip(`addr add fd0${number}::2/64 dev ${name} nodad`);
    }
    await pod.ip("route add default via 10.0.0.1 dev eth0");
    await pod.ip("-6 route add default via fd00::1 dev eth0");
    return pod;
  }

  /** Runs `ip` in the pod, with arguments separated by blanks. */
  ip(command: string): Promise<string> {
    return this.#lab.run("ip", "-n", this.netns, ...command.split(" "));
  }

  /** Adds an interface whose other end stays in the pod. */
  async addInterface(name: string, address: string): Promise<void> {
    await this.ip(`link add ${name} type veth peer name ${name}peer`);
    await this.ip(`link set ${name} up`);
    await this.ip(`link set ${name}peer up`);
    await this.ip(`addr add ${address} dev ${name}`);
  }

  /** Sends messages from a process in a network namespace, and returns the kernel's answers. */
  readonly transport = async (netns: string, messages: Uint8Array): Promise<Uint8Array> => {
    this.datagrams++;
    const hex = Buffer.from(messages).toString("hex");
    const program = [process.execPath, "-e", netlinkProcess, process.cwd(), hex];
    return Buffer.from(await this.#lab.run("ip", "netns", "exec", netns, ...program), "hex");
  };

  /** Applies the key `default-route` of net1. */
  apply(requested: readonly string[] | undefined): ReturnType<typeof applyDefaultRoute> {
    const attachments: DefaultRouteRequest["attachments"] = [
      { ifName: "eth0" },
      { ifName: "net1", requested },
    ];
    const { netns, transport } = this;
    return applyDefaultRoute({ netns, attachments, transport });
  }

  /** The default routes of a family in the order of their metrics, without the kernel's additions. */
  async defaults(family: Family): Promise<string[]> {
    const lines = (await this.ip(`${family} route show default`)).replaceAll(/\n\s+/g, " ");
    return lines
      .split("\n")
      .map((line) =>
        line
          .replace(/ pref medium/g, "")
          .replaceAll(/\s+/g, " ")
          .trim(),
      )
      .filter((line) => line !== "");
  }

  /** The main table, without the link-local networks that come up on their own after a while. */
  async routes(): Promise<string[]> {
    const lines = `${await this.ip("-4 route")}\n${await this.ip("-6 route")}`.split("\n");
    return lines.filter((line) => !line.startsWith("fe80::")).sort();
  }
}

const twoHops = "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.9 dev eth0";

const test = nodeTest.extend("pod", ({ idleNode: { lab }, task }) =>
  RoutedPod.create(lab, `pod-${task.id}`),
);

test("listLinks() and listAddresses() read what the kernel has", async ({ pod }) => {
  const links = await listLinks(pod.transport, pod.netns);
  const eth0 = links.find(({ name }) => name === "eth0");
  expect(links.map(({ name }) => name).sort()).toEqual([
    "eth0",
    "eth0peer",
    "lo",
    "net1",
    "net1peer",
  ]);
  expect(eth0).toMatchObject({
    mtu: 1500,
    mac: (await pod.ip("link show eth0")).match(/ether (\S+)/)?.[1],
  });
  expect((eth0?.flags ?? 0) & 1).toBe(1);
  const own = (await listAddresses(pod.transport, pod.netns)).filter(
    ({ ifIndex }) => ifIndex === eth0?.index,
  );
  expect(own).toContainEqual({ ifIndex: eth0?.index, family: 4, address: "10.0.0.2", prefix: 24 });
  expect(own).toContainEqual({ ifIndex: eth0?.index, family: 6, address: "fd00::2", prefix: 64 });
});

test("applyDefaultRoute() asks the kernel nothing when no attachment has the key", async ({
  pod,
}) => {
  expect(await pod.apply(undefined)).toEqual(new Map());
  expect(pod.datagrams).toBe(0);
});

test("applyDefaultRoute() moves IPv4 and leaves IPv6 where it is [N-4.1.2.1.9c]", async ({
  pod,
}) => {
  const after = await pod.apply(["10.1.0.1"]);
  expect(await pod.defaults("-4")).toEqual(["default via 10.1.0.1 dev net1"]);
  expect(await pod.defaults("-6")).toEqual(["default via fd00::1 dev eth0 metric 1024"]);
  expect(after.get("net1")).toEqual({
    families: [4],
    routes: [{ family: 4, gateway: "10.1.0.1", metric: 0 }],
  });
  expect(after.get("eth0")).toEqual({ families: [4], routes: [] });
});

test("applyDefaultRoute() moves IPv6 and leaves IPv4 where it is [N-4.1.2.1.9c]", async ({
  pod,
}) => {
  const after = await pod.apply(["FD01::1"]);
  expect(await pod.defaults("-4")).toEqual(["default via 10.0.0.1 dev eth0"]);
  expect(await pod.defaults("-6")).toEqual(["default via fd01::1 dev net1 metric 1024"]);
  expect(after.get("net1")?.routes).toEqual([{ family: 6, gateway: "fd01::1", metric: 1024 }]);
});

test("applyDefaultRoute() moves both families and orders gateways by metric [N-4.1.2.1.9e]", async ({
  pod,
}) => {
  await pod.apply(["10.1.0.9", "fd01::9", "10.1.0.1", "fe80::1"]);
  expect(await pod.defaults("-4")).toEqual([
    "default via 10.1.0.9 dev net1",
    "default via 10.1.0.1 dev net1 metric 1",
  ]);
  expect(await pod.defaults("-6")).toEqual([
    "default via fd01::9 dev net1 metric 1024",
    "default via fe80::1 dev net1 metric 1025",
  ]);
});

test("applyDefaultRoute() replaces the attachment's own default routes and is idempotent", async ({
  pod,
}) => {
  await pod.ip("route add default via 10.1.0.7 dev net1 metric 50");
  await pod.apply(["10.1.0.1"]);
  expect(await pod.defaults("-4")).toEqual(["default via 10.1.0.1 dev net1"]);
  const before = await pod.routes();
  pod.datagrams = 0;
  await pod.apply(["10.1.0.1"]);
  expect(await pod.routes()).toEqual(before);
  expect(pod.datagrams).toBe(4);
});

test("applyDefaultRoute() with [] keeps the attachment's own default routes only [N-4.1.2.1.9b]", async ({
  pod,
}) => {
  await pod.ip("route add default via 10.1.0.7 dev net1 metric 50");
  await pod.apply([]);
  expect(await pod.defaults("-4")).toEqual(["default via 10.1.0.7 dev net1 metric 50"]);
  expect(await pod.defaults("-6")).toEqual(["default via fd00::1 dev eth0 metric 1024"]);
});

test("applyDefaultRoute() changes nothing for a gateway that cannot be reached", async ({
  pod,
}) => {
  const before = await pod.routes();
  for (const gateway of ["10.9.0.1", "10.1.0.2", "fd09::1", "fd01::2"]) {
    await expect(pod.apply(["10.1.0.1", gateway])).rejects.toMatchObject({
      name: "RouteError",
      code: 100,
    });
  }
  expect(await pod.routes()).toEqual(before);
  await pod.ip("link set net1 down");
  await expect(pod.apply(["10.1.0.1"])).rejects.toThrow("the interface is down");
  expect(await pod.defaults("-4")).toEqual(["default via 10.0.0.1 dev eth0"]);
});

test("applyDefaultRoute() takes only the attachments' hops out of a multipath route", async ({
  pod,
}) => {
  await pod.addInterface("other", "10.2.0.2/24");
  await pod.ip(
    "route replace default metric 10 nexthop via 10.0.0.1 dev eth0 weight 1" +
      " nexthop via 10.2.0.1 dev other weight 5 nexthop via 10.2.0.9 dev other weight 7",
  );
  await pod.apply(["10.1.0.1"]);
  expect(await pod.defaults("-4")).toEqual([
    "default via 10.1.0.1 dev net1",
    "default metric 10 nexthop via 10.2.0.1 dev other weight 5 nexthop via 10.2.0.9 dev other weight 7",
  ]);
});

test("applyDefaultRoute() removes multipath and nexthop-object routes of losing attachments", async ({
  pod,
}) => {
  await pod.ip(`route replace default ${twoHops}`);
  await pod.ip("-6 route del default");
  await pod.ip("nexthop add id 7 via fd00::1 dev eth0");
  await pod.ip("-6 route add default nhid 7");
  await pod.apply(["10.1.0.1", "fd01::1"]);
  expect(await pod.defaults("-4")).toEqual(["default via 10.1.0.1 dev net1"]);
  expect(await pod.defaults("-6")).toEqual(["default via fd01::1 dev net1 metric 1024"]);
});

test("applyDefaultRoute() puts every route back when the kernel refuses one", async ({ pod }) => {
  await pod.ip(`route replace default mtu 1400 proto static ${twoHops}`);
  await pod.ip("route add default via 10.0.0.1 dev eth0 metric 5 src 10.0.0.2 onlink");
  await pod.ip("nexthop add id 7 via fd00::9 dev eth0");
  await pod.ip("-6 route add default nhid 7 metric 2000");
  const before = await pod.routes();
  const attachments = [{ ifName: "eth0" }, { ifName: "net1", requested: ["fd01::1", "10.1.0.1"] }];
  const { netns } = pod;
  /** Exchanges the gateway behind the planner's back for one that the kernel refuses. */
  const transport = (path: string, messages: Uint8Array): Promise<Uint8Array> => {
    const bytes = Buffer.from(messages);
    const start = bytes.indexOf(Buffer.from([10, 1, 0, 1]));
    if (start >= 0) Buffer.from([10, 9, 9, 9]).copy(bytes, start);
    return pod.transport(path, bytes);
  };
  const applied = applyDefaultRoute({ netns, attachments, transport });
  await expect(applied).rejects.toMatchObject({
    errno: "ENETUNREACH",
    message: "cannot add the IPv4 default route via 10.1.0.1 dev net1: ENETUNREACH",
  });
  expect(await pod.routes()).toEqual(before);
});
