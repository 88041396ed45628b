import { message, part, parts, text, texts } from "#grpc/message.ts";
import { unaryMethod } from "#grpc/unary-client.ts";

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
export type PodResources = ReturnType<typeof podResources.decode>;

/** All pods of the node. */
export const listPodResources = unaryMethod("/v1.PodResourcesLister/List", {
  request: message({}),
  response: message({ podResources: parts(1, podResources) }),
});

/** One pod; enabled by default since Kubernetes 1.34. */
export const getPodResources = unaryMethod("/v1.PodResourcesLister/Get", {
  request: message({ podName: text(1), podNamespace: text(2) }),
  response: message({ podResources: part(1, podResources) }),
});
