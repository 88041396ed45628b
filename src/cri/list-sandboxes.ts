import { integer, message, part, parts, text } from "#grpc/message.ts";
import { openUnaryClient, type UnaryCallOptions, unaryMethod } from "#grpc/unary-client.ts";

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

const podSandbox = message({
  id: text(1),
  metadata: part(2, podSandboxMetadata),
  /** 0 = ready, 1 = not ready: stopped but not removed. */
  state: integer(3),
});

/** Without a filter, lists all sandboxes, including stopped ones. @internal */
export const listPodSandbox = unaryMethod("/runtime.v1.RuntimeService/ListPodSandbox", {
  request: message({}),
  response: message({ items: parts(1, podSandbox) }),
});

/** The kubelet's limit for a runtime's answer. */
const maxResponseBytes = 16 * 1024 * 1024;

/** A sandbox of the container runtime. */
export interface ListedSandbox {
  /** CNI's container ID. */
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
}

/** All sandboxes of the runtime at a socket, also stopped ones. @throws GrpcError, MessageError */
export async function listSandboxes(
  socketPath: string,
  options: UnaryCallOptions,
): Promise<ListedSandbox[]> {
  using client = await openUnaryClient(socketPath, { maxResponseBytes });
  const { items } = await client.call(listPodSandbox, {}, options);
  return items.map(({ id, metadata }) => ({
    id,
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
  }));
}
