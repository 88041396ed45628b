import { message, part, parts, text, texts } from "#grpc/message.ts";
import { unaryMethod } from "#grpc/unary-method.ts";

/*
 * What is used of the kubelet's pod-resources API, v1 (k8s.io/kubelet, pkg/apis/podresources/v1/
 * api.proto), served at `pod-resources/kubelet.sock`.
 */

const containerDevices = message({ resourceName: text(1), deviceIds: texts(2) });

const containerResources = message({ name: text(1), devices: parts(2, containerDevices) });

const podResources = message({
  name: text(1),
  namespace: text(2),
  containers: parts(3, containerResources),
});

/** What one pod was allocated. It has no UID: a pod is known by namespace and name alone. */
export type PodResources = ReturnType<typeof podResources.decode>;

/** The pods of the whole node. */
export const listPodResources = unaryMethod("/v1.PodResourcesLister/List", {
  request: message({}),
  response: message({ podResources: parts(1, podResources) }),
});

/** One pod; on since Kubernetes 1.34. */
export const getPodResources = unaryMethod("/v1.PodResourcesLister/Get", {
  request: message({ podName: text(1), podNamespace: text(2) }),
  response: message({ podResources: part(1, podResources) }),
});
