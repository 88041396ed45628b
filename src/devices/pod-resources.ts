import { message, part, parts, text, texts } from "#grpc/message.ts";

/*
 * The used part of the kubelet's pod-resources API, v1 (k8s.io/kubelet, pkg/apis/podresources/v1/
 * api.proto), served at `pod-resources/kubelet.sock`.
 */

const containerDevices = message({ resourceName: text(1), deviceIds: texts(2) });

const containerResources = message({ name: text(1), devices: parts(2, containerDevices) });

const podResources = message({
  name: text(1),
  namespace: text(2),
  containers: parts(3, containerResources),
});

/** The devices of one pod, known by namespace and name but not by UID. */
export type PodResources = ReturnType<typeof podResources>;

/** All pods of the node. */
export const listPodResources = {
  path: "/v1.PodResourcesLister/List",
  decode: message({ podResources: parts(1, podResources) }),
};

/** The pod with the name (1) and namespace (2); enabled by default since Kubernetes 1.34. */
export const getPodResources = {
  path: "/v1.PodResourcesLister/Get",
  decode: message({ podResources: part(1, podResources) }),
};
