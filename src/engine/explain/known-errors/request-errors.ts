import { CniErrorCode } from "#cni/error.ts";
import type { KnownError } from "./known-error.ts";

/** What is wrong with a pod's annotation or with a definition, in the words of Plexus. */
export const requestErrors: readonly KnownError[] = [
  {
    finding: "missing-definition",
    words: ["there is no NetworkAttachmentDefinition … which the pod asks for"],
    step: "create the definition, or correct name and namespace in the annotation; the kubelet tries again by itself",
  },
  {
    finding: "forbidden-namespace",
    code: CniErrorCode.AccessDenied,
    step: "move the definition into the pod's namespace or into one of globalNamespaces",
  },
  {
    finding: "meta-plugin",
    words: ["is a meta-plugin and cannot be a delegate"],
    step: "name the network's own plugin in the definition: Plexus calls it itself",
  },
  {
    finding: "undeclared-request",
    words: ["no plugin of it has the capability"],
    step: 'declare it in the definition ("capabilities": {…: true}) on a plugin that supports it, remove the key from the annotation, or set in plexusd\'s configuration undeclaredRequests: cniArgs (mac and ips) or ignoredRequests: warn (the others), as Multus behaves',
  },
  {
    finding: "ignored-request",
    words: ["ignored the key … the pod asks for"],
    step: "use a plugin that supports the key, remove it from the annotation, or set ignoredRequests: warn in plexusd's configuration, as Multus behaves",
  },
  {
    finding: "missing-device",
    words: ["its definition needs a device of resource"],
    step: "add the resource to the limits of a container, as often as networks need it, and create the pod again",
  },
  {
    finding: "foreign-device",
    words: ["asks for the device … was not allocated"],
    step: "take the deviceID out of the annotation, or name one that plexusctl devices shows for the pod",
  },
  {
    finding: "repeated-network",
    words: ["cannot be attached twice to one pod"],
    step: "use a second definition whose configuration has another name",
  },
  {
    finding: "interface-name-taken",
    words: ["interface … is requested by network", "interface … , requested by network"],
    step: "give each network of the annotation an interface name of its own, other than eth0",
  },
  {
    finding: "default-interface-name",
    words: ["replaces the default network and must be on interface"],
    step: "take the interface name out of the default-network annotation",
  },
  {
    finding: "over-limit",
    words: ["more than the limit of"],
    step: "make it smaller: docs/user/configuration.md lists the limits, which cannot be changed",
  },
  {
    finding: "unreachable-gateway",
    words: ["default route through … : gateway"],
    step: "name a gateway in the default-route of the annotation that is in the interface's network",
  },
  {
    finding: "default-route-taken",
    words: ["default route through … : interface"],
    step: "remove the route that something else has set in the pod, or the default-route from the annotation",
  },
  {
    finding: "definition-file-missing",
    words: ["no net configuration with name", "no net configurations found in"],
    step: "put the configuration into the definition's spec.config, or a file with that network name into confDir on this node",
  },
  {
    finding: "invalid-definition",
    words: ['NetworkAttachmentDefinition "'],
    step: "correct the definition's spec.config",
  },
];
