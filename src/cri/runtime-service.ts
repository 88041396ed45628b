import { integer, message, part, parts, text, textMap } from "#grpc/message.ts";
import { unaryMethod } from "#grpc/unary-method.ts";

/*
 * The used part of the container runtime interface, runtime.v1 (k8s.io/cri-api,
 * pkg/apis/runtime/v1/api.proto). Field numbers never change; other fields are skipped.
 */

const podSandboxMetadata = message({
  name: text(1),
  uid: text(2),
  namespace: text(3),
  attempt: integer(4),
});

const podSandboxFilter = message({ id: text(1), labelSelector: textMap(3) });

const podSandbox = message({
  id: text(1),
  metadata: part(2, podSandboxMetadata),
  /** 0 = ready, 1 = not ready: stopped but not removed. */
  state: integer(3),
});

const listPodSandboxRequest = message({ filter: part(1, podSandboxFilter) });
const listPodSandboxResponse = message({ items: parts(1, podSandbox) });

/** Lists sandboxes, including stopped ones. */
export const listPodSandbox = unaryMethod("/runtime.v1.RuntimeService/ListPodSandbox", {
  request: listPodSandboxRequest,
  response: listPodSandboxResponse,
});
