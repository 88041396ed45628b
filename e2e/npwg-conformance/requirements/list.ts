/**
 * Every requirement on one line: identifier, level and text. `N-4.1.2.1.4b` is the second requirement of the
 * standard's section 4.1.2.1.4. Those of Multus's users start with `X-` and have the level `none`.
 */
export const requirementList = `
N-3.2a MUST A definition without valid keys in its spec refers to the network that the implementation knows by the object's name.
N-3.3a MUST Names of definitions consist of DNS-1123 labels.
N-3.4.1a MUST If spec.config is present, its content is used as a single configuration or a list, and files are not.
N-3.4.1b MUST Otherwise the configuration list on disk whose JSON name matches the object's name is used.
N-3.4.1c MUST Otherwise the single configuration on disk whose JSON name matches the object's name is used.
N-3.4.1d MUST Otherwise the network request fails.
N-3.4.2 MUST A spec.config without a CNI name gets the object's name before it is passed to a delegate.
N-3.4.3 MAY The object's name and the name in its CNI configuration need not match.
N-4a MUST The annotation selects attachments in addition to the default network.
N-4.1a MUST The annotation is k8s.v1.cni.cncf.io/networks; both of its formats are supported.
N-4.1.1a MUST Comma-delimited format: a name refers to an object in the pod's namespace.
N-4.1.1b MUST Comma-delimited format: namespace/name refers to an object in another namespace.
N-4.1.2a MUST JSON list format: each element is a map of the keys that the specification defines.
N-4.1.2.1a MUST Key names without a period are reserved. Keys of other implementations in reverse domain notation are accepted.
N-4.1.2.1.1 MUST name: required string. The object is in the pod's namespace if namespace is missing or empty.
N-4.1.2.1.2 MUST namespace: optional string, the namespace of the object.
N-4.1.2.1.3a MUST ips: at least one element, each an IPv4 or IPv6 address with an optional prefix length.
N-4.1.2.1.3b MUST ips: an invalid value makes the whole annotation invalid and ignored.
N-4.1.2.1.3.2a MUST ips is added to the delegate's runtimeConfig, per CNI's conventions.
N-4.1.2.1.3.2b MUST If no plugin has the ips capability, the request fails.
N-4.1.2.1.4a MUST mac: a 6-byte Ethernet or a 20-byte IP-over-InfiniBand hardware address.
N-4.1.2.1.4b MUST mac: an invalid value makes the whole annotation invalid and ignored.
N-4.1.2.1.4.2a MUST mac is added to the delegate's runtimeConfig, per CNI's conventions.
N-4.1.2.1.4.2b MUST If no plugin has the mac capability, the request fails.
N-4.1.2.1.5a MUST interface: a valid Linux interface name; an invalid value makes the whole annotation invalid and ignored.
N-4.1.2.1.5b MUST interface: a name that a previous attachment already uses fails the current attachment.
N-4.1.2.1.5.1 MUST interface is the CNI_IFNAME of the attachment's CNI operations.
N-4.1.2.1.6a MUST cni-args: a dict, passed through to the delegate.
N-4.1.2.1.6.2a MUST cni-args becomes the args key of the delegate's configuration, per CNI's conventions.
N-4.1.2.1.6.2b MUST The annotation's cni-args are merged into the args of the definition's configuration and override them.
N-4.1.2.1.7a MUST portMappings: at least one dict. hostPort and containerPort are required integers from 1 to 65535. protocol is UDP, TCP or SCTP in any case, and defaults to TCP.
N-4.1.2.1.7b MUST portMappings: an invalid value makes the whole annotation invalid and ignored.
N-4.1.2.1.7.2a MUST portMappings is added to the delegate's runtimeConfig, per CNI's conventions.
N-4.1.2.1.7.2b MUST If no plugin has the portMappings capability, the request fails.
N-4.1.2.1.8a MUST bandwidth: at least one of ingressRate, ingressBurst, egressRate and egressBurst, each a non-zero integer. A burst requires its rate.
N-4.1.2.1.8b MUST bandwidth: an invalid value makes the whole annotation invalid and ignored.
N-4.1.2.1.8.2a MUST bandwidth is added to the delegate's runtimeConfig, per CNI's conventions.
N-4.1.2.1.8.2b MUST If no plugin has the bandwidth capability, the request fails.
N-4.1.2.1.8.2c MAY Bursts default to reasonable values.
N-4.1.2.1.9a MUST default-route: an array of gateway addresses that may be empty.
N-4.1.2.1.9b MUST default-route selects the attachment that has the default route, also with an empty list.
N-4.1.2.1.9c MUST The default route is removed from the default network and from attachments without the key, then set on the selected one.
N-4.1.2.1.9d MUST If more than one attachment has the key, the annotation is invalid and ignored.
N-4.1.2.1.9e MAY The order of several gateways becomes the order of their metrics.
N-4.2a MUST Requests for the same network are separate attachments, processed by separate operations.
N-4.2b MUST Each of them has its own element in the network-status.
N-4.2.1a MUST All CNI operations of one attachment use the same container ID, network name and CNI_IFNAME.
N-4.2.1b MUST A generated CNI_IFNAME is unique among the attachments of the same container and network.
N-5a MAY The results of the attachments are published in the pod's k8s.v1.cni.cncf.io/network-status annotation.
N-5b MUST The annotation's value is a JSON list of maps, built from the results of the attachment operations.
N-5.1.1a MUST An attachment's status is taken from the first sandbox interface of its CNI result.
N-5.1.1b SHOULD An attachment whose plugins return no result, or a result without interfaces, has a minimal status map.
N-5.1.1c SHOULD As much of the result as possible is used, including results before 0.3.0.
N-5.2a MUST The default network has an element whose default key is true.
N-5.3a MUST Keys other than the specification's are in reverse domain notation. (device-info, mtu and gateway of later versions of the standard are accepted.)
N-5.3.1 MUST name: the definition's name, with its namespace if the reference has one, or the default network's name.
N-5.3.2.1a SHOULD interface comes from the result's first interface with a valid sandbox.
N-5.3.2.1b MAY interface is CNI_IFNAME for results before 0.3.0.
N-5.3.3.1a SHOULD ips are those whose interface index refers to the first interface with a valid sandbox.
N-5.3.3.1b SHOULD If no interface has a sandbox, ips are those without an interface or with a negative index.
N-5.3.3.1c SHOULD Otherwise ips is not in the status map.
N-5.3.3.1d SHOULD For results before 0.3.0 ips come from ip4 and ip6.
N-5.3.4 MUST If mac is present, interface is present too.
N-5.3.4.1 SHOULD mac comes from the result's first interface with a valid sandbox.
N-5.3.5a MUST default: required boolean, true for the default network.
N-5.3.5b MUST Only one element has default set to true.
N-5.3.6a MAY dns holds the nameservers, domain and search names of the attachment's result.
N-5.3.6.4 MUST default-route is set to the attachment's default gateways in its status if its selection has the default-route key.
N-6a MUST Every pod is attached to the default network.
N-6.1a SHOULD The CNI configuration file is not written before the default network is ready.
N-6.1.2a MUST If the configuration file is installed at once, operations are blocked until the default network is ready.
N-6.2 MUST The default network is attached before any network of the annotation.
N-7.1a MUST cniVersion and name of the list are injected into each plugin's configuration. The runtime gets the result in the version that it expects.
N-7.2a MUST On setup, the failure of any attachment fails the operation at once, without further attachments.
N-7.2b MUST On teardown, all attempted attachments are torn down. The failure of one does not prevent the others.
N-7.2c MUST If any detachment failed, the runtime gets a final error.
N-7.3 MUST The attachment operations of one pod are not run in parallel.
N-7.4 MUST A definition that the pod may not use fails the pod's network operation.
N-7.5 MUST runtimeConfig from Kubernetes applies only to the default network.
X-1 none Comma-delimited format: name@interface requests an interface name; spaces around elements do not matter.
X-2 none Generated interface names are net1, net2 and so on, by the position in the annotation.
X-3 none An empty annotation selects no networks.
X-4 none The annotation v1.multus-cni.io/default-network replaces the pod's default network.
X-5 none The runtime gets the default network's result, and nothing of the other networks.
X-6 none The name in network-status is NAMESPACE/NAME of the definition.
X-7 none network-status has addresses without prefix lengths, the mtu and the gateways of default routes.
X-8 none The key infiniband-guid becomes runtimeConfig.infinibandGUID.
X-9 none Delegates get the pod's namespace, name, UID and container ID in CNI_ARGS.
X-10 none A requested mac and ips are also in CNI_ARGS, as MAC and IP.
X-11 none A failed ADD detaches what it had attached, in reverse order.
X-12 none DEL detaches in reverse order.
X-13 none DEL uses the configuration of ADD, even if the definition was changed or deleted since.
X-14 none DEL detaches a pod that is no longer in the API server.
X-15 none DEL without CNI_NETNS detaches, and a second DEL succeeds.
X-16 none ADD fails if the pod of this name has another UID than the runtime's.
X-17 none CHECK of an attached pod succeeds.
X-18 none DEL passes the result of ADD to the delegate as prevResult.
`;
