import { builtModule } from "../cluster/machine/go-module.ts";

/** The newest release of sriov that is a Go module's version, and the path by which it imports itself. */
const module = "github.com/k8snetworkplumbingwg/sriov-cni@v2.1.0+incompatible";
const importPath = "github.com/intel/sriov-cni";

/** It has no go.mod: releases of its time that compile. */
const requirements = [
  "github.com/containernetworking/cni@v0.6.0",
  "github.com/containernetworking/plugins@v0.7.4",
  "github.com/coreos/go-iptables@v0.8.0",
  "github.com/vishvananda/netlink@v1.1.0",
  "github.com/vishvananda/netns@v0.0.0-20191106174202-0a2b9b5464df",
  "golang.org/x/sys@v0.30.0",
];

/** A directory with the plugin sriov, which docs/user/networks.md uses. */
export function guestPlugins(): Promise<string> {
  const requires = requirements.map((each) => `-require=${each}`).join(" ");
  const edit = `rm glide.lock; go mod init ${importPath}; go mod edit ${requires}`;
  return builtModule({ name: "sriov", module, programs: { sriov: "./cmd/sriov" }, keep: [], edit });
}
