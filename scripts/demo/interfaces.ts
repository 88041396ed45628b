import { execa } from "execa";

/** One interface of a pod in the kernel, and what it is connected to. */
export interface PodInterface {
  readonly ifName: string;
  /** IPv4 in CIDR notation. */
  readonly addresses: readonly string[];
  /** How the node connects it: `bridge br0`, `macvlan on eth0`, `routed by the node`. */
  readonly joint: string;
}

/** Fields of `ip -json -details address`. */
interface LinkObject {
  readonly ifindex: number;
  readonly ifname: string;
  /** The index of the other end, or of the parent. */
  readonly link_index?: number;
  readonly master?: string;
  readonly linkinfo?: { readonly info_kind?: string };
  readonly addr_info: readonly {
    readonly family: string;
    readonly local: string;
    readonly prefixlen: number;
  }[];
}

/** The interfaces of a pod without its loopback, in the order of attachment. */
export async function podInterfaces(pod: string): Promise<PodInterface[]> {
  const [inPod, onNode] = await Promise.all([links(["-n", pod]), links([])]);
  const others = inPod.filter(({ ifname }) => ifname !== "lo");
  return others.map((link) => ({
    ifName: link.ifname,
    addresses: link.addr_info
      .filter(({ family }) => family === "inet")
      .map(({ local, prefixlen }) => `${local}/${prefixlen}`),
    joint: jointOf(
      link,
      onNode.find(({ ifindex }) => ifindex === link.link_index),
    ),
  }));
}

async function links(flags: readonly string[]): Promise<LinkObject[]> {
  const { stdout } = await execa("ip", [...flags, "-json", "-details", "address", "show"]);
  return JSON.parse(stdout) as LinkObject[];
}

function jointOf({ linkinfo }: LinkObject, other: LinkObject | undefined): string {
  if (other === undefined) return "not joined to the node";
  if (linkinfo?.info_kind !== "veth") return `${linkinfo?.info_kind ?? "?"} on ${other.ifname}`;
  return other.master === undefined ? "routed by the node" : `bridge ${other.master}`;
}
