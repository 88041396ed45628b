import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import type { Place } from "./place.ts";
import { processes } from "./processes.ts";

/** What is on the node, in a form that compares: section → lines. */
export type HostState = Readonly<Record<string, readonly string[]>>;

/** What the kernel has. Names of host interfaces carry no index, rules no counters. */
const script = `
section() { printf '\\n=== %s\\n' "$1"; }
section links; ip -o link | sed 's/^[0-9]*: \\([^:]*\\):.*/\\1/'
section addresses; ip -o -4 address | awk '{print $2, $4}'
section routes; ip route | sed 's, linkdown,,'
section tc; tc qdisc show | grep -v ' noqueue \\| fq_codel \\| pfifo_fast '
section nftables; nft list ruleset | sed 's/counter packets [0-9]* bytes [0-9]*/counter/'
for pod in $(ls /run/netns); do
  section "namespace $pod"; ip -n "$pod" -o link | sed 's/^[0-9]*: \\([^:@]*\\)[:@].*/link \\1/' | grep -v 'link lo$'
  ip -n "$pod" route | sed 's/^/route /'
done
true`;

/** Where iptables keeps tables of its own, they are not part of the nftables ruleset. */
const legacyTables = ["iptables-legacy-save", "ip6tables-legacy-save"];
const hasLegacyTables = existsSync("/proc/net/ip_tables_names");

/** Takes down links, namespaces, rules, queues, leases, records, locks, temporary files and processes. */
export async function readHostState(place: Place, known: readonly number[]): Promise<HostState> {
  const text = (await execa("sh", ["-c", script])).stdout;
  const sections = `\n${text}`
    .split("\n=== ")
    .slice(1)
    .map((section) => section.split("\n").filter((line) => line.trim() !== ""));
  return {
    ...Object.fromEntries(sections.map(([name = "", ...lines]) => [name, lines])),
    iptables: hasLegacyTables ? await legacyRules() : [],
    files: ["/run", "/var/lib/cni"].flatMap((dir) => filesBelow(dir, place)).sort(),
    locks: heldLocks(place),
    processes: processes()
      .filter(({ pid }) => !known.includes(pid))
      .map(({ state, command }) => `${state} ${command}`),
  };
}

async function legacyRules(): Promise<string[]> {
  const outputs = await Promise.all(legacyTables.map((name) => execa(name, { reject: false })));
  return outputs
    .flatMap(({ stdout }) => stdout?.split("\n") ?? [])
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.replace(/\[\d+:\d+\]/, ""));
}

/** What the harness itself keeps there, and mount points of namespaces, which have a section each. */
const passedOver = ["bin", "moved", "real", "control", "reached", "hidden", "lost", "etc"];

/**
 * Files, but for what is to stay: host-local's last address and lock, the lock of garbage collection, the default plan,
 * and the empty mark of a sandbox that was detached completely, which plexusd removes after hours.
 */
function filesBelow(dir: string, place: Place): string[] {
  const skipped = ["/run/netns", ...passedOver.map((name) => join(place.root, name))];
  const stays = /\/(last_reserved_ip\.\d+|lock|\.gc\.lock|default\.plan)$/;
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (skipped.includes(path) || stays.test(path)) return [];
    if (entry.isDirectory()) return filesBelow(path, place);
    const isMark = path.endsWith(".detached") && statSync(path).size === 0;
    return isMark ? [] : [path];
  });
}

/** Kernel file locks on the state directory's file system. */
function heldLocks(place: Place): string[] {
  const { dev } = statSync(place.disk);
  const hex = (n: number): string => n.toString(16).padStart(2, "0");
  const device = `${hex(dev >> 8)}:${hex(dev & 0xff)}:`;
  const lines = readFileSync("/proc/locks", "utf8").split("\n");
  return lines.filter((line) => line.includes(` ${device}`)).map((line) => line.slice(3));
}

/** Every line that one of them has and the other has not, with its section: `links: +veth12`. */
export function compareHostStates(before: HostState, after: HostState): string[] {
  const sections = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return sections.flatMap((section) => {
    const [was, is] = [before[section] ?? [], after[section] ?? []];
    return [
      ...without(is, was).map((line) => `${section}: +${line.trim()}`),
      ...without(was, is).map((line) => `${section}: -${line.trim()}`),
    ];
  });
}

/** The lines of one list that the other has not, each as often as it is missing. */
function without(lines: readonly string[], others: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of others) left.set(line, (left.get(line) ?? 0) + 1);
  return lines.filter((line) => {
    const count = left.get(line) ?? 0;
    left.set(line, count - 1);
    return count <= 0;
  });
}
