import { parseDefinition, parseNetworkStatus } from "@plexus/npwg";

/** What a dashboard shows: which interfaces a pod has, and which plugins its networks have. */
const status = `[
  { "name": "pod-network", "interface": "eth0", "ips": ["10.244.7.2"], "default": true, "dns": {} },
  { "name": "shop/storage", "interface": "net1", "ips": ["172.20.0.2"], "dns": {} }
]`;
for (const { name, interface: as, ips } of parseNetworkStatus(status)) console.log(name, as, ips);

const { name, configuration } = parseDefinition({
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "storage", namespace: "shop" },
  spec: { config: '{"cniVersion": "1.0.0", "type": "bridge", "ipam": {"type": "host-local"}}' },
});
console.log(
  name,
  configuration?.plugins.map(({ type }) => type),
);
