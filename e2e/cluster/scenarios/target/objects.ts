import { bridge, list } from "../../../support/networks.ts";

/** Where the scenarios' pods live. */
export const home = "plexus-e2e";

/** Another namespace, which has its own network. */
export const elsewhere = "plexus-e2e-elsewhere";

export const networksKey = "k8s.v1.cni.cncf.io/networks";
export const statusKey = "k8s.v1.cni.cncf.io/network-status";

/** The networks of the scenarios, by the names that pods use. */
export const networks = {
  red: bridge("red", 161),
  blue: bridge("blue", 162),
  green: bridge("green", 163),
  /** Pods choose addresses and hardware addresses themselves. */
  fixed: list("fixed", {
    type: "bridge",
    bridge: "br164",
    capabilities: { ips: true, mac: true },
    ipam: { type: "static" },
  }),
  late: bridge("late", 165),
} as const;

/** The networks that most pods of the scenarios ask for. */
export const both = { networks: "red,blue" };

/** The bridges of these networks, which the bridge plugin leaves behind on purpose. */
export const bridges = "cni0 br77 br161 br162 br163 br164 br165".split(" ");

/** A namespace. */
export function namespaceObject(name: string, labels = {}): object {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
}

/** What of a pod's object is looked at. */
export interface PodObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly creationTimestamp: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly status: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly resourceClaimStatuses?: readonly {
      readonly name: string;
      readonly resourceClaimName?: string;
    }[];
    readonly extendedResourceClaimStatus?: { readonly resourceClaimName: string };
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime: string;
    }[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

interface ContainerStatus {
  readonly restartCount: number;
  readonly state?: { readonly waiting?: { readonly reason?: string } };
}

/** One entry of the network-status annotation. */
export interface StatusEntry {
  readonly name: string;
  readonly interface: string;
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly default?: boolean;
  readonly "plexus.dev/annotation-error"?: string;
}

/** Parses a pod's network-status annotation. */
export function networkStatus(pod: PodObject): StatusEntry[] {
  return JSON.parse(pod.metadata.annotations?.[statusKey] ?? "[]") as StatusEntry[];
}
