import { expect } from "vitest";
import { recordFileName } from "#lib/files/state-files.ts";
import { temporaryName } from "#lib/files/temporary-name.ts";
import { type HostStateKind, hostStateKinds } from "../support/host-state.ts";
import { test } from "../support/node/test.ts";
import { waitUntil } from "../support/wait.ts";

const record = recordFileName({ containerId: "c1", ifName: "eth0" });

/** Commands that leave something of each kind; `$1` is the state directory, `$2` the directory of published statuses. */
const traces: Record<HostStateKind, string | readonly string[]> = {
  links: "ip link add left0 type veth peer name left1",
  addresses: ["ip address add 10.1.2.3/32 dev lo", "ip address add fe80::1/128 dev lo"],
  routes: [
    "ip route add blackhole 10.9.0.0/16",
    "ip route add blackhole fd00:9::/64",
    "ip route add blackhole 10.9.0.0/16 table 9",
    "ip -6 rule add from fd00:9::/64 table 9",
  ],
  qdiscs: "tc qdisc add dev lo root tbf rate 1mbit burst 10k latency 50ms",
  "nftables rules": "nft add table ip left",
  "iptables chains": "iptables -N LEFT",
  "iptables rules": "iptables -A FORWARD -d 10.1.2.3 -j ACCEPT",
  "port mappings": [
    `nft 'table ip mapped {
      chain prerouting { type nat hook prerouting priority -100; tcp dport 80 dnat to 10.1.2.3; }
    }'`,
    `nft 'table ip looked-up {
      map ports { type inet_proto . inet_service : ipv4_addr . inet_service; elements = { tcp . 80 : 10.1.2.3 . 80 }; }
    }'`,
  ],
  netns: "ip netns add left",
  "links in pods": "ip netns add linked; ip -n linked link add left0 type veth peer name left1",
  "addresses in pods": "ip netns add addressed; ip -n addressed address add fd00:9::1/128 dev lo",
  "routes in pods": [
    "ip netns add routed; ip -n routed route add blackhole 10.9.0.0/16",
    "ip -n routed route add blackhole fd00:9::/64",
  ],
  "address leases":
    "mkdir -p /var/lib/cni/networks/red; echo c1 > /var/lib/cni/networks/red/10.1.2.3",
  "cached results": "mkdir -p /var/lib/cni/results; echo c1 > /var/lib/cni/results/red-c1-eth0",
  "other plugin files": "mkdir -p /run/cni/dhcp; echo c1 > /run/cni/dhcp/c1",
  "attachment records": `mkdir -p "$1"; echo c1 > "$1/${record}"`,
  locks: `mkdir -p "$1"; touch "$1/c1.lock"`,
  "published statuses": `mkdir -p "$2/default"; echo '[]' > "$2/default/p1.json"`,
  "temporary files": `mkdir -p "$1"; touch "$1/${temporaryName(record)}"`,
  processes: "sleep 600 > /dev/null 2>&1 &",
};

const cases = hostStateKinds.flatMap((kind) => [traces[kind]].flat().map((trace) => [kind, trace]));

test.for(cases as [HostStateKind, string][])(
  "host state shows new %s: %s",
  async ([kind, trace], { node }) => {
    const before = await node.hostState();
    const paths = [node.stateDir, `${node.manifestsDir}/.status`];
    await node.lab.run("sh", "-ec", trace, "sh", ...paths);
    expect(await node.changesSince(before, [kind])).not.toEqual([]);
    const after = await node.hostState();
    expect(await node.changesSince(after), "nothing was added since").toEqual([]);
  },
);

test("host state does not show addresses and routes that the kernel adds when an interface comes up", async ({
  node,
}) => {
  await node.lab.run("sh", "-ec", "ip link add up1 type veth peer name up2; ip link set up2 up");
  const before = await node.hostState();
  await node.lab.run("ip", "link", "set", "up1", "up");
  const addresses = (): Promise<string> => node.lab.run("ip", "-6", "-o", "address", "show", "up1");
  await waitUntil("up1 has its address", async () =>
    /fe80::.* scope link (?!.*tentative)/.test(await addresses()),
  );
  expect(await node.changesSince(before, ["addresses", "routes"])).toEqual([]);
});

test("host state shows a changed and a removed file", async ({ node }) => {
  await node.lab.run(
    "sh",
    "-ec",
    "mkdir -p /run/cni/dhcp; echo c1 | tee /run/cni/dhcp/c2 > /run/cni/dhcp/c3",
  );
  const before = await node.hostState();
  await node.lab.run("sh", "-ec", "echo other > /run/cni/dhcp/c2; rm /run/cni/dhcp/c3");
  expect(await node.changesSince(before)).toEqual([
    expect.stringMatching(/^\+ other plugin files: \/run\/cni\/dhcp\/c2 [0-9a-f]{12}$/),
    expect.stringMatching(/^- other plugin files: \/run\/cni\/dhcp\/c2 [0-9a-f]{12}$/),
    expect.stringMatching(/^- other plugin files: \/run\/cni\/dhcp\/c3 [0-9a-f]{12}$/),
  ]);
});
