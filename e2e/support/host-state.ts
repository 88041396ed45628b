/*
 * Left out is only what the kernel makes for an interface or an address that is listed, as it makes some of it later,
 * after duplicate address detection: the link-local address that it derives from the MAC address
 * (`fe80::…ff:fe…/64`), the route to `fe80::/64`, and its own entries in the table `local`. A link-local address that
 * was configured, such as `fe80::1`, is listed.
 */
const addresses = (ip: string): string => `${ip} -o address show | awk '{ print $2, $4 }' |
    grep -v ' fe80::[0-9a-f:]*ff:fe[0-9a-f]*:[0-9a-f]*/64$'`;
const routes = (ip: string): string => `{
    ${ip} -4 route show table all; ${ip} -6 route show table all
    ${ip} -4 rule | sed 's/^/IPv4 rule /'; ${ip} -6 rule | sed 's/^/IPv6 rule /'
  } | grep -v ' table local proto kernel \\|^fe80::/64 .* proto kernel ' |
    sed 's/ linkdown//; s/ expires [0-9]*sec//'`;
const inPods = (command: string): string =>
  `for pod in $(ls /run/netns); do ${command} | sed "s/^/$pod /"; done`;
const links = (ip: string): string => `${ip} -o link | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'`;

/**
 * What a host has of each kind, as shell commands that print one line each: `$1` is Plexus' state directory, `$2`
 * the directory of published statuses, `$show` what find does with a file. Left out is what plugins and Plexus
 * keep on purpose: host-local's last address and the lock of its leases, counters of rules, the lock of the
 * garbage collection, which primary CNI was chosen.
 */
const listings = {
  links: links("ip"),
  addresses: addresses("ip"),
  routes: routes("ip"),
  qdiscs: "tc qdisc show | grep -v ' noqueue \\| fq_codel \\| pfifo_fast '",
  "nftables rules": "nft list ruleset | sed 's/counter packets [0-9]* bytes [0-9]*/counter/'",
  "iptables chains": "{ iptables-save; ip6tables-save; } | sed -n 's/^:\\([^ ]*\\).*/\\1/p'",
  "iptables rules": "{ iptables-save; ip6tables-save; } | grep '^-A'",
  // CRI-O's rules stay, and look its mappings up in a map: `tcp . 80 : 10.0.0.2 . 8080`.
  "port mappings": `{ nft list ruleset || iptables-save; } |
    sed -n 's/^[ \\t]*//; / map @\\|ct status/d; /dnat\\| : [0-9.]* \\. [0-9]/p'`,
  // CRI-O has the host's own there too, for pods of the host's network.
  netns: `ls /run/netns | while read -r name; do
    [ "/run/netns/$name" -ef /proc/self/ns/net ] || echo "$name"
  done`,
  "links in pods": inPods(links('ip -n "$pod"')),
  "addresses in pods": inPods(addresses('ip -n "$pod"')),
  "routes in pods": inPods(routes('ip -n "$pod"')),
  "address leases": `cd /var/lib/cni/networks &&
    find . -type f ! -name lock ! -name 'last_reserved_ip*' $show`,
  "cached results": "cd /var/lib/cni/results && find . -type f $show",
  "other plugin files": `find /var/lib/cni /run/cni -type f \\
    ! -path '/var/lib/cni/networks/*' ! -path '/var/lib/cni/results/*' $show`,
  "attachment records": `cd "$1" &&
    find . -maxdepth 1 -type f ! -name '*.lock' ! -name '*.tmp' ! -name '*.detached' \\
      ! -name primary-conf ! -name default.plan ! -name definitions.json $show`,
  locks: `cd "$1" && find . -name '*.lock'`,
  "published statuses": `cd "$2" && find . -type f ! -name '*.tmp' $show`,
  "temporary files": `find "$1" "$2" -name '*.tmp'`,
  // Those in this mount namespace, which every lab has for itself, but what lists them, and a
  // plexus-standalone that has stayed after a call.
  processes: `all=$(find /proc/[0-9]*/ns/mnt -maxdepth 0 -printf '%h %l\\n')
    echo "$all" | grep -F "$(readlink /proc/$$/ns/mnt)" | cut -d/ -f3 | while read -r pid; do
      grep -qe host-state -e plexus-standalone "/proc/$pid/cmdline" || { tr '\\0' ' ' < "/proc/$pid/cmdline" && echo; }
    done`,
} as const;

/** A kind of thing that attachments put on a host. */
export type HostStateKind = keyof typeof listings;

/** Every kind, in the order in which differences are named. */
export const hostStateKinds = Object.keys(listings) as readonly HostStateKind[];

/** Pods' network namespaces, and what is in them. */
export const podKinds = [
  "netns",
  "links in pods",
  "addresses in pods",
  "routes in pods",
] as const satisfies readonly HostStateKind[];

/** All kinds but pods' network namespaces and what is in them, which change when a test makes a pod. */
export const hostKinds = hostStateKinds.filter(
  (kind) => !(podKinds as readonly HostStateKind[]).includes(kind),
);

/** The kinds that the kernel keeps. */
export const kernelKinds = [
  "links",
  "addresses",
  "routes",
  "qdiscs",
  "nftables rules",
  "iptables rules",
  ...podKinds,
] as const satisfies readonly HostStateKind[];

/** The kinds that are files: what outlives a reboot. */
export const fileKinds: readonly HostStateKind[] = [
  "address leases",
  "cached results",
  "other plugin files",
  "attachment records",
  "locks",
  "published statuses",
  "temporary files",
];

/** What was on a host at one moment: sorted lines of each kind that was read. */
export type HostState<Kind extends string = HostStateKind> = Readonly<
  Partial<Record<Kind, readonly string[]>>
>;

/** The host to read from. */
export interface StateSource {
  /** Runs a command there and returns its standard output. */
  readonly run: (command: [string, ...string[]]) => Promise<string>;
  /** The directory of Plexus' records. */
  readonly stateDir: string;
  /** The directory of published statuses, where they are files. */
  readonly statusDir?: string;
}

/** What is read. */
export interface HostStateOptions {
  /** @default all */
  readonly kinds?: readonly HostStateKind[];
  /** Files are listed with a digest of their contents. @default false */
  readonly contents?: boolean;
}

const digests = "-exec sha256sum {} + | sed 's/^\\(.\\{12\\}\\)[^ ]*  \\(.*\\)/\\2 \\1/'";

/** Reads what attachments may have put on a host. */
export async function readHostState(
  { run, stateDir, statusDir = "/nonexistent" }: StateSource,
  { kinds = hostStateKinds, contents = false }: HostStateOptions = {},
): Promise<HostState> {
  const sections = kinds.map((kind) => {
    const command = listings[kind].replaceAll("$show", contents ? digests : "-print");
    return `echo '=== ${kind}'\n(${command}\n) 2>/dev/null`;
  });
  const script = `${sections.join("\n")}\ntrue`;
  const output = await run(["sh", "-c", script, "host-state", stateDir, statusDir]);
  return Object.fromEntries(
    `\n${output}`
      .split("\n=== ")
      .slice(1)
      .map((section) => section.split("\n"))
      .map(([kind, ...lines]) => [
        kind,
        lines
          .map((line) => line.trim())
          .filter(Boolean)
          .sort(),
      ]),
  );
}

/**
 * Names what differs between two states of a host, one line each: `+ links: veth1` for what has come,
 * `- address leases: ./red/10.0.0.2` for what is gone. Compares the kinds that the earlier state has.
 */
export function differences<Kind extends string>(
  before: HostState<Kind>,
  after: HostState<Kind>,
  kinds: readonly Kind[] = Object.keys(before) as Kind[],
): string[] {
  return kinds.flatMap((kind) => [
    ...without(after[kind], before[kind]).map((line) => `+ ${kind}: ${line}`),
    ...without(before[kind], after[kind]).map((line) => `- ${kind}: ${line}`),
  ]);
}

/** The lines of one kind that have come since. */
export function linesAdded(before: HostState, after: HostState, kind: HostStateKind): string[] {
  return without(after[kind], before[kind]);
}

/** The lines without as many of the same as the others have. */
function without(lines: readonly string[] = [], others: readonly string[] = []): string[] {
  const left = [...others];
  return lines.filter((line) => {
    const index = left.indexOf(line);
    if (index >= 0) left.splice(index, 1);
    return index < 0;
  });
}
