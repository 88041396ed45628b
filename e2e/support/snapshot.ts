import type { PlexusNode } from "./plexus-node.ts";

/** What CNI plugins and Plexus leave in a node, in a form that compares: section → lines. */
export type Snapshot = Readonly<Record<string, readonly string[]>>;

/** What host-local's last address was, the garbage collection's empty lock file and tombstones are no leftovers. */
const script = `
section() { printf '\\n=== %s\\n' "$1"; }
section links; ip -o link | sed 's/^[0-9]*: \\([^:]*\\):.*/\\1/'
section addresses; ip -o -4 address | awk '{print $2, $4}'
section routes; (ip route; ip -6 route | grep -v fe80) | sed 's, linkdown,,'
section qdiscs; tc qdisc show | grep -v ' noqueue \\| fq_codel \\| pfifo_fast '
section nft; nft list ruleset | sed 's/counter packets [0-9]* bytes [0-9]*/counter/'
section iptables; iptables-save 2>/dev/null | grep -v '^#' | sed 's/\\[[0-9]*:[0-9]*\\]//'
section ip6tables; ip6tables-save 2>/dev/null | grep -v '^#' | sed 's/\\[[0-9]*:[0-9]*\\]//'
section files
for dir in /var/lib/cni /run/cni "$@"; do
  [ -d "$dir" ] && find "$dir" -type f ! -name 'last_reserved_ip.*' ! -name .gc.lock ! -name '*.detached' -exec sha256sum {} +
done | sed 's/^\\(.\\{12\\}\\)[^ ]*/\\1/' | sort -k2
section pods
for pod in $(ls /run/netns); do
  ip -n "$pod" -o link | sed "s/^[0-9]*: \\([^:]*\\):.*/$pod \\1/"
  ip -n "$pod" route | sed "s/^/$pod /; s/ linkdown//"
done
true
`;

/** Records links, addresses, routes, queues, rules, leases, records and the pods' interfaces of a node. */
export async function snapshot(node: PlexusNode): Promise<Snapshot> {
  const dirs = [node.stateDir, `${node.manifestsDir}/.status`];
  const text = await node.lab.run("sh", "-c", script, "snapshot", ...dirs);
  const sections = text
    .split("\n=== ")
    .slice(1)
    .map((section) => section.split("\n"));
  return Object.fromEntries(
    sections.map(([name, ...lines]) => [name, lines.filter((line) => line.trim() !== "")]),
  );
}
