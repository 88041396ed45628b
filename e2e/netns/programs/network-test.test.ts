import { execa } from "execa";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { NetnsLab } from "../../support/node/netns-lab.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";

/*
 * What the pods of `kubectl plexus test` find, with real links: pods are namespaces on a bridge. The cluster scenarios
 * test the whole command.
 */

const network = "shop/lan";

interface Finding {
  readonly finding: string;
  readonly detail: string;
  readonly mtu: number;
}

let lab: NetnsLab;
let bridges = 0;

beforeAll(async () => {
  lab = await NetnsLab.create();
});

afterAll(() => lab[Symbol.asyncDispose]());

/** The pods of one test, on a separate bridge. */
class Segment {
  readonly bridge = `br${++bridges}`;
  readonly #pods: { name: string; addresses: readonly string[]; mac: string }[] = [];

  static async create(): Promise<Segment> {
    const segment = new Segment();
    await lab.run("ip", "link", "add", segment.bridge, "type", "bridge");
    await lab.run("ip", "link", "set", segment.bridge, "up");
    return segment;
  }

  /** Starts a pod with net1 that answers, and returns the name of its port. */
  async pod(name: string, ...addresses: string[]): Promise<string> {
    const port = await this.host(name, ...addresses);
    const link = await lab.run("ip", "-n", this.#netns(name), "-json", "link", "show", "net1");
    const [{ address: mac }] = JSON.parse(link);
    this.#pods.push({ name, mac, addresses: addresses.map((each) => each.split("/")[0] ?? "") });
    const [file, ...args] = this.#plexusctl(name, "answer");
    const answering = execa(file as string, args, { reject: false });
    onTestFinished(async () => {
      answering.kill();
      await answering;
    });
    return port;
  }

  /** Plugs a namespace in that no test knows of. */
  async host(name: string, ...addresses: string[]): Promise<string> {
    const [netns, port] = [this.#netns(name), `${this.bridge}-${name}`];
    await lab.addNetns(netns);
    const peer = ["peer", "name", "net1", "netns", netns];
    await lab.run("ip", "link", "add", port, "type", "veth", ...peer);
    await lab.run("ip", "link", "set", port, "master", this.bridge, "up");
    await this.ip(name, "link", "set", "net1", "up");
    for (const each of addresses)
      await this.ip(
        name,
        "address",
        "add",
        each,
        "dev",
        "net1",
        ...(each.includes(":") ? ["nodad"] : []),
      );
    return port;
  }

  async ip(name: string, ...args: string[]): Promise<string> {
    return lab.run("ip", "-n", this.#netns(name), ...args);
  }

  /** What a pod finds about the others. */
  async probe(from: string): Promise<Finding[]> {
    const items = this.#pods.map(({ name, addresses, mac }) => ({
      metadata: {
        name,
        annotations: {
          "k8s.v1.cni.cncf.io/network-status": JSON.stringify([
            { name: "cbr0", interface: "eth0", ips: ["10.9.9.9"], default: true, dns: {} },
            { name: network, interface: "net1", ips: addresses, mac, default: false, dns: {} },
          ]),
        },
      },
      spec: { nodeName: "node-1" },
    }));
    const command = this.#plexusctl(from, "probe", "--network", network);
    const [file, ...args] = command;
    const { stdout } = await execa(file as string, args, { input: JSON.stringify({ items }) });
    return JSON.parse(stdout);
  }

  #netns(name: string): string {
    return `${this.bridge}-${name}`;
  }

  /** A container has a private host name and /sys. */
  #plexusctl(name: string, ...args: string[]): string[] {
    const script = 'hostname "$0" && exec "$@"';
    const program = [nodeBinary(), distPath("plexusctl.js"), "network-test"];
    const inPod = [
      "ip",
      "netns",
      "exec",
      this.#netns(name),
      "unshare",
      "--uts",
      "sh",
      "-c",
      script,
      name,
    ];
    return lab.command(...inPod, ...program, ...args);
  }
}

test("pods of one segment reach each other with packets of the MTU, on IPv4 and IPv6", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24", "fd00:1::1/64");
  await segment.pod("b", "10.1.0.2/24", "fd00:1::2/64");
  const ok = { finding: "ok", detail: "", mtu: 1500 };
  expect(await segment.probe("a")).toEqual([
    { from: "a", to: "b", address: "10.1.0.2", ...ok },
    { from: "a", to: "b", address: "fd00:1::2", ...ok },
  ]);
  expect(await segment.probe("b")).toMatchObject([
    { to: "a", ...ok },
    { to: "a", ...ok },
  ]);
});

test("a segment that drops packets of the MTU", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24");
  const port = await segment.pod("b", "10.1.0.2/24");
  await lab.run("ip", "link", "set", port, "mtu", "1400");
  for (const from of ["a", "b"]) {
    const detail = "small packets pass, those of 1500 bytes do not: no answer";
    expect(await segment.probe(from)).toMatchObject([{ finding: "PacketTooBig", detail }]);
  }
});

test("a router with a smaller MTU, after whose answer the kernel fragments packets", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24");
  const port = await segment.pod("b", "10.2.0.2/24");
  await lab.run("ip", "link", "add", "far", "type", "bridge");
  await lab.run("ip", "link", "set", port, "master", "far");
  await lab.run("ip", "address", "add", "10.1.0.9/24", "dev", segment.bridge);
  await lab.run("ip", "address", "add", "10.2.0.9/24", "dev", "far");
  await lab.run("ip", "link", "set", "far", "mtu", "1400", "up");
  await lab.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward");
  await segment.ip("a", "route", "add", "10.2.0.0/24", "via", "10.1.0.9");
  await segment.ip("b", "route", "add", "10.1.0.0/24", "via", "10.2.0.9");
  expect(await segment.probe("a")).toMatchObject([
    {
      finding: "PacketTooBig",
      detail: expect.stringMatching(/those of 1500 bytes do not: a router .* has a smaller MTU$/),
    },
  ]);
});

test("two pods with one address, and a host outside of the test with the address of a pod", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24");
  await segment.pod("b", "10.1.0.1/24");
  const port = await segment.pod("c", "10.1.0.3/24");
  await segment.host("other", "10.1.0.3/24");
  await lab.run("ip", "link", "set", port, "down");
  const [toB, toC] = await segment.probe("a");
  expect(toB).toMatchObject({ finding: "DuplicateAddress" });
  expect(toC).toMatchObject({
    finding: "OtherHostAnswered",
    detail: expect.stringMatching(/^its MAC address is \S{17}, that of the pod \S{17}$/),
  });
});

test("a pod answers for the address of another", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24");
  await segment.pod("b", "10.1.0.2/24");
  const port = await segment.pod("c", "10.1.0.2/24");
  await lab.run("ip", "link", "set", port, "down");
  expect(await segment.probe("a")).toMatchObject([
    { to: "b", finding: "ok" },
    { to: "c", finding: "OtherHostAnswered", detail: "b answered" },
  ]);
});

test("no answer, another subnet, and a route through another interface", async () => {
  const segment = await Segment.create();
  await segment.pod("a", "10.1.0.1/24");
  const port = await segment.pod("b", "10.1.0.2/24");
  await lab.run("ip", "link", "set", port, "down");
  await segment.pod("c", "10.2.0.3/24");
  expect(await segment.probe("a")).toMatchObject([
    { finding: "NoAnswer" },
    { finding: "OtherInterface", detail: expect.stringMatching(/^no route: .*ENETUNREACH/) },
  ]);
  await segment.ip("a", "link", "add", "eth0", "type", "bridge");
  await segment.ip("a", "address", "add", "10.9.9.9/24", "dev", "eth0");
  await segment.ip("a", "link", "set", "eth0", "up");
  await segment.ip("a", "route", "add", "default", "dev", "eth0");
  expect((await segment.probe("a"))[1]).toMatchObject({
    finding: "OtherInterface",
    detail: "packets leave with the address 10.9.9.9",
  });
});
