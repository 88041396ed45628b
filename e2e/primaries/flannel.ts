import { join } from "node:path";
import { builtModule } from "../cluster/machine/go-module.ts";
import type { Primary } from "./primary.ts";

/**
 * flannel with VXLAN. Left out are its backends for UDP, which needs C, and for Tencent's cloud, whose SDK Go's proxy
 * lacks. The proxy lacks the module of its CNI plugin too: the plugin comes from the last reference plugins with it.
 */
export const flannel: Primary = {
  conf: "10-flannel.conflist",
  namespace: "kube-flannel",
  daemonSet: "kube-flannel-ds",
  configMap: ["kube-flannel-cfg", "cni-conf.json"],
  module: {
    name: "flannel",
    module: "github.com/flannel-io/flannel@v0.28.10",
    programs: { flanneld: ".", "install-conf": "./cmd/install_conf" },
    keep: ["Documentation/kube-flannel.yml"],
    edit: "sed -i -E '/backend.(udp|tencentvpc).$/d' main.go",
  },
  manifest: "Documentation/kube-flannel.yml",
  // The newest version that this plugin knows.
  adapt: (manifest) => manifest.replace('"cniVersion": "1.0.0"', '"cniVersion": "0.4.0"'),
  files: async (module) => ({
    flannel: join(await builtModule(plugin), "flannel"),
    "opt/bin/flanneld": join(module, "flanneld"),
    "opt/bin/install-conf": join(module, "install-conf"),
  }),
};

const plugin = {
  name: "flannel-plugin",
  module: "github.com/containernetworking/plugins@v0.9.1",
  programs: { flannel: "./plugins/meta/flannel" },
};
