import { annotations, FormatError, formatNetworks, parseNetworks } from "@plexus/npwg";

/** What a console does with a pod's annotation: read it, add a network, and write it again. */
const pod = {
  metadata: {
    namespace: "shop",
    annotations: { [annotations.networks]: "storage, infra/lab@lab0" },
  },
};
const { namespace, annotations: own } = pod.metadata;
const networks = parseNetworks(own[annotations.networks], { namespace });
console.log(networks.map(({ namespace, name, interface: as }) => [namespace, name, as]));

const added = { namespace, name: "backup", ips: ["10.2.0.7/24"], mac: "02:00:00:00:00:01" };
console.log(formatNetworks([...networks, added]));

try {
  parseNetworks('[{"name": "storage", "mac": "zz"}]', { namespace });
} catch (error) {
  if (error instanceof FormatError) console.log(error.problems);
}
