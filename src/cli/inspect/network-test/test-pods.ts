import { parseIp } from "#lib/ip.ts";
import { parseNetworkStatus } from "#npwg/api.ts";

/** What `kubectl get pods -o json` prints. */
export interface PodList {
  readonly items: readonly {
    readonly metadata: {
      readonly name: string;
      readonly annotations?: Readonly<Record<string, string>>;
    };
    readonly spec: { readonly nodeName?: string };
  }[];
}

/** A pod of a test, and what it has from the network. */
export interface TestPod {
  readonly name: string;
  readonly node: string;
  /** Empty if the pod is not attached, or was deleted. */
  readonly interface: string;
  readonly mac: string;
  readonly addresses: readonly string[];
}

const statusKey = "k8s.v1.cni.cncf.io/network-status";

/** Reads each pod's interface on a network, `NAMESPACE/NAME`, from its status. @throws FormatError */
export function testPods({ items }: PodList, network: string): TestPod[] {
  return items.map(({ metadata: { name, annotations }, spec: { nodeName = "" } }) => {
    const list = parseNetworkStatus(annotations?.[statusKey] ?? "");
    const status = list.find((each) => each.name === network && !each.default);
    const addresses = status?.ips.map(parseIp) ?? [];
    const { interface: ifName = "", mac = "" } = status ?? {};
    return { name, node: nodeName, interface: ifName, mac, addresses };
  });
}

/** The pods by the names with which they were started: one that was deleted is not listed. */
export function startedPods(names: readonly string[], listed: readonly TestPod[]): TestPod[] {
  const deleted = { node: "", interface: "", mac: "", addresses: [] };
  return names.map((name) => listed.find((pod) => pod.name === name) ?? { name, ...deleted });
}
