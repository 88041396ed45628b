import { execa } from "execa";

/**
 * Prepares private network and mount namespaces as a node: empty directories for the state of CNI plugins, and the
 * link for macvlan, whose other end is `LINK-peer`.
 */
export async function setUpNode(link = "up0"): Promise<void> {
  await execa("sh", ["-ec", commands, "node", link]);
}

const commands = `
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/cni /var/lib/cni
mount -t tmpfs tmpfs /var/lib/cni
ip link set lo up
ip link add "$1" type veth peer name "$1-peer"
ip link set "$1" up
ip link set "$1-peer" up`;
