import { join } from "node:path";
import type { Primary } from "./primary.ts";

const api = "github.com/projectcalico/api";

/** What the cluster does without: the controllers, which remove the addresses of nodes that are gone. */
const controllers = /^kind: Deployment\n(?:.*\n)*? {2}name: calico-kube-controllers$/m;

/** Calico 3.28 with VXLAN and the Kubernetes datastore, without BGP. */
export const calico: Primary = {
  conf: "10-calico.conflist",
  namespace: "kube-system",
  daemonSet: "calico-node",
  configMap: ["calico-config", "cni_network_config"],
  module: {
    name: "calico",
    module: "github.com/projectcalico/calico@v1.11.0-cni-plugin.0.20250813170300-a0db560f0520",
    programs: {
      calico: "./cni-plugin/cmd/calico",
      install: "./cni-plugin/cmd/install",
      "calico-node": "./node/cmd/calico-node",
    },
    keep: ["manifests/calico-vxlan.yaml", "node/filesystem"],
    scripts: ["node/filesystem"],
    // A module does not contain the modules in its folders.
    edit: `go mod edit -replace ${api}=${api}@v0.0.0-20240708202104-e3f70b269c2c`,
  },
  manifest: "manifests/calico-vxlan.yaml",
  adapt: (manifest) =>
    manifest
      .split(/^---\n/m)
      .filter((object) => !controllers.test(object))
      .join("---\n")
      // The command of the project's own image.
      .replace("        - name: calico-node\n", '$&          command: ["start_runit"]\n')
      // By default it takes a bridge of a secondary network for the node's interface, when the bridge has an address.
      .replace(
        /^( +)- name: IP\n/m,
        "$1- name: IP_AUTODETECTION_METHOD\n$1  value: kubernetes-internal-ip\n$&",
      ),
  files: async (module) => ({
    "opt/cni/bin/calico": join(module, "calico"),
    "opt/cni/bin/calico-ipam": join(module, "calico"),
    "opt/cni/bin/install": join(module, "install"),
    "bin/calico-node": join(module, "calico-node"),
    etc: join(module, "node/filesystem/etc"),
    "usr/sbin/start_runit": join(module, "node/filesystem/sbin/start_runit"),
  }),
};
