import { columns } from "#cli/output-format.ts";
import type { Finding, Probe } from "./probe.ts";
import type { TestPod } from "./test-pods.ts";

/** With more results, people see only the bad ones. */
const shownMax = 30;

/** The result of a test. */
export interface Report {
  readonly network: string;
  readonly passed: boolean;
  readonly pods: readonly TestPod[];
  readonly probes: readonly Probe[];
  /** Nodes that were not ready, so that no pod was started there. */
  readonly notReady: readonly string[];
}

type Tested = Omit<Report, "passed">;

const advice: Readonly<
  Record<Finding | "NoAddress" | "NodeNotReady" | "NotAttached" | "NotTested", string>
> = {
  DuplicateAddress:
    "pods have the same address. An IPAM plugin that knows only its node, such as host-local, gives the same addresses on every node: give each node a separate range, or use an IPAM plugin for the whole cluster, such as whereabouts, or DHCP",
  NoAddress:
    "pods have no address on the network, so the test cannot reach them: its IPAM must give every pod an address",
  NodeNotReady:
    "nodes are not ready, so fewer were tested than you asked for: see kubectl describe node, and run the test again",
  NotAttached:
    "pods were not attached to the network, or were deleted before the test; it has printed why",
  NotTested:
    "pods did not test the others: they were deleted or evicted, or their nodes do not answer. The test has printed errors; run it again",
  NoAnswer:
    "pods do not reach each other. Networks of bridge and ptp end at the node. For macvlan, ipvlan and VLANs, check that the master interfaces of the nodes are in one segment, and that switch and hypervisor let the pods' MAC addresses and the VLAN pass. Check network policies",
  OtherHostAnswered:
    "another host has an address of a pod. Exclude addresses that are in use from the range of the network",
  OtherInterface:
    "packets to other pods do not leave by the network's interface. Give the network one subnet for all nodes, or routes to the subnets of other nodes in its IPAM",
  PacketTooBig:
    "packets of the interface's size get lost on the way. Set the network's mtu to what switches and nodes carry, or correct those",
};

/** The result of the probes that the pods have made. */
export function report(tested: Tested): Report {
  return { ...tested, passed: findingsOf(tested).size === 0 && tested.probes.length > 0 };
}

/** The lines for people: the pods, what each found, and what to do. */
export function reportText(result: Report): string[] {
  const { network, passed, pods, probes } = result;
  const bad = probes.filter(({ finding }) => finding !== "ok");
  const shown = probes.length > shownMax ? bad : probes;
  const attached = pods.filter((pod) => pod.interface !== "");
  const nodes = nodesOf(attached).size;
  const missing = missingNodes(result);
  const untested = missing.length > 0 ? `; not tested on ${missing.join(", ")}` : "";
  const where = nodes === 1 ? "one node, so none between nodes" : `${nodes} nodes`;
  const count = `${probes.length - bad.length} of ${probes.length} tests passed between ${attached.length} pods on ${where}${untested}`;
  return [
    ...columns([["POD", "NODE", "INTERFACE", "MAC", "ADDRESSES"], ...pods.map(podRow)]),
    "",
    ...columns([["FROM", "TO", "ADDRESS", "MTU", "RESULT"], ...shown.map(probeRow)]),
    "",
    `network ${network}: ${passed ? "ok" : "PROBLEM"}, ${count}`,
    ...Array.from(findingsOf(result), (each) => `${each}: ${advice[each]}`),
  ];
}

/** All that is wrong, each once. */
function findingsOf(tested: Tested): Set<keyof typeof advice> {
  const { pods, probes } = tested;
  const ofPods = pods.flatMap((pod) => {
    if (pod.interface === "") return "NotAttached";
    if (pod.addresses.length === 0) return "NoAddress";
    const hasTested = probes.some(({ from }) => from === pod.name);
    const hasTargets = pods.some((other) => other !== pod && other.addresses.length > 0);
    return hasTargets && !hasTested ? "NotTested" : [];
  });
  return new Set([
    ...ofPods,
    ...probes.flatMap(({ finding }) => (finding === "ok" ? [] : finding)),
    ...missingNodes(tested).map(() => "NodeNotReady" as const),
  ]);
}

/** The nodes that were not ready, if the pods had to share the others. */
function missingNodes({ pods, notReady }: Tested): readonly string[] {
  return nodesOf(pods).size < pods.length ? notReady : [];
}

function nodesOf(pods: readonly TestPod[]): Set<string> {
  return new Set(pods.map(({ node }) => node));
}

function podRow({ name, node, interface: ifName, mac, addresses }: TestPod): string[] {
  return [name, node || "-", ifName || "-", mac || "-", addresses.join(",") || "-"];
}

function probeRow({ from, to, address, mtu, finding, detail }: Probe): string[] {
  return [from, to, address, String(mtu), detail === "" ? finding : `${finding}: ${detail}`];
}
