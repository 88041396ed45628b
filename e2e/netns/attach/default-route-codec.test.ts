import { expect } from "vitest";
import { planClusterRoutes } from "#engine/add/cluster-routes.ts";
import { changeRoutes, type RoutesAfter } from "#engine/add/default-route/apply.ts";
import { planDefaultRoute, type RoutePlan } from "#engine/add/default-route/plan.ts";
import type { RouteState } from "#engine/add/default-route/route-state.ts";
import { parseCidr } from "#lib/ip.ts";
import type { NetnsLab } from "../../support/node/netns-lab.ts";
import { test as nodeTest } from "../../support/node/test.ts";

/**
 * Routes that no plugin sets, against the kernel itself. The transport is netlink's own native socket, in a process
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

/**
 * A pod with eth0 (10.0.0.2/24, fd00::2/64) and net1 (10.1.0.2/24, fd01::2/64); eth0 has the default routes of
 * both families.
 */
class RoutedPod {
  readonly #lab: NetnsLab;
  readonly #netns: string;
  /** Changes a datagram on its way to the kernel. */
  tamper: (messages: Buffer) => void = () => undefined;

  private constructor(lab: NetnsLab, netns: string) {
    this.#lab = lab;
    this.#netns = netns;
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
    return this.#lab.run("ip", "-n", this.#netns, ...command.split(" "));
  }

  /** Adds an interface whose other end stays in the pod. */
  async addInterface(name: string, address: string): Promise<void> {
    await this.ip(`link add ${name} type veth peer name ${name}peer`);
    await this.ip(`link set ${name} up`);
    await this.ip(`link set ${name}peer up`);
    await this.ip(`addr add ${address} dev ${name}`);
  }

  /** Applies the key `default-route` of net1. */
  apply(requested: readonly string[]): Promise<RoutesAfter | undefined> {
    const attachments = [{ ifName: "eth0" }, { ifName: "net1", requested }];
    return this.change((state) => planDefaultRoute(state, attachments));
  }

  async change(plan: (state: RouteState) => RoutePlan): Promise<RoutesAfter | undefined> {
    const transport = async (netns: string, messages: Uint8Array): Promise<Uint8Array> => {
      const bytes = Buffer.from(messages);
      this.tamper(bytes);
      const program = [
        process.execPath,
        "-e",
        netlinkProcess,
        process.cwd(),
        bytes.toString("hex"),
      ];
      return Buffer.from(await this.#lab.run("ip", "netns", "exec", netns, ...program), "hex");
    };
    return changeRoutes({ netns: this.#netns, transport }, plan);
  }

  /** The default routes of a family in the order of their metrics, without the kernel's additions. */
  async defaults(family: 4 | 6): Promise<string[]> {
    const lines = (await this.ip(`-${family} route show default`)).replaceAll(/\n\s+/g, " ");
    const plain = lines.replaceAll(" pref medium", "").split("\n");
    return plain.map((line) => line.replaceAll(/\s+/g, " ").trim()).filter((line) => line !== "");
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

test("changeRoutes() removes only the attachments' hops from a multipath route", async ({
  pod,
}) => {
  await pod.addInterface("other", "10.2.0.2/24");
  await pod.ip(
    "route replace default metric 10 nexthop via 10.0.0.1 dev eth0 weight 1" +
      " nexthop via 10.2.0.1 dev other weight 5 nexthop via 10.2.0.9 dev other weight 7",
  );
  await pod.apply(["10.1.0.1"]);
  expect(await pod.defaults(4)).toEqual([
    "default via 10.1.0.1 dev net1",
    "default metric 10 nexthop via 10.2.0.1 dev other weight 5 nexthop via 10.2.0.9 dev other weight 7",
  ]);
});

test("changeRoutes() removes multipath and nexthop-object routes of replaced attachments [N-4.1.2.1.9c] [N-4.1.2.1.9e]", async ({
  pod,
}) => {
  await pod.ip(`route replace default ${twoHops}`);
  await pod.ip("-6 route del default");
  await pod.ip("nexthop add id 7 via fd00::1 dev eth0");
  await pod.ip("-6 route add default nhid 7");
  const after = await pod.apply(["10.1.0.9", "fe80::1", "10.1.0.1"]);
  expect(await pod.defaults(4)).toEqual([
    "default via 10.1.0.9 dev net1",
    "default via 10.1.0.1 dev net1 metric 1",
  ]);
  expect(await pod.defaults(6)).toEqual(["default via fe80::1 dev net1 metric 1024"]);
  expect(after?.families).toEqual([4, 6]);
});

test("changeRoutes() restores every route if the kernel rejects one", async ({ pod }) => {
  await pod.ip(`route replace default mtu 1400 proto static ${twoHops}`);
  await pod.ip("route add default via 10.0.0.1 dev eth0 metric 5 src 10.0.0.2 onlink");
  await pod.ip("nexthop add id 7 via fd00::9 dev eth0");
  await pod.ip("-6 route add default nhid 7 metric 2000");
  const before = await pod.routes();
  // Replaces the gateway after planning with one that the kernel rejects.
  pod.tamper = (bytes) => {
    const start = bytes.indexOf(Buffer.from([10, 1, 0, 1]));
    if (start >= 0) Buffer.from([10, 9, 9, 9]).copy(bytes, start);
  };
  await expect(pod.apply(["fd01::1", "10.1.0.1"])).rejects.toThrow(
    "cannot add the IPv4 default route via 10.1.0.1 dev net1: ENETUNREACH",
  );
  expect(await pod.routes()).toEqual(before);
});

test("routes to the cluster copy a default route with a link-local gateway and an MTU", async ({
  pod,
}) => {
  const before = await pod.routes();
  await pod.ip("route del default");
  await pod.ip("-6 route del default");
  await pod.ip("route add 169.254.1.1 dev eth0 scope link");
  await pod.ip("route add default via 169.254.1.1 dev eth0 mtu 1400");
  await pod.ip("-6 route add default via fe80::ee dev eth0");
  const primary = await pod.routes();
  expect(primary).not.toEqual(before);
  const keep = (...ranges: string[]) =>
    pod.change((state) =>
      planClusterRoutes({ ...state, addresses: [] }, "eth0", ranges.map(parseCidr)),
    );
  await keep("10.96.0.0/12", "fd00:96::/108");
  expect((await pod.routes()).filter((line) => !primary.includes(line))).toEqual([
    expect.stringMatching(/^10\.96\.0\.0\/12 via 169\.254\.1\.1 dev eth0 proto 112 mtu 1400/),
    expect.stringMatching(/^fd00:96::\/108 via fe80::ee dev eth0 proto 112 metric 1024/),
  ]);
  await pod.ip("route del default");
  await keep("10.96.0.0/12", "10.112.0.0/12");
  expect(await pod.ip("route get 10.112.0.1")).toContain("via 169.254.1.1 dev eth0");
});
