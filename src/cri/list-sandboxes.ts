import { callUnary, type UnaryCall } from "#grpc/call-unary.ts";
import { message, part, parts, text } from "#grpc/message.ts";
import { encodeTexts } from "#grpc/wire.ts";

/*
 * The used part of the container runtime interface, runtime.v1 (k8s.io/cri-api,
 * pkg/apis/runtime/v1/api.proto). Field numbers never change; other fields are skipped.
 */

const podSandbox = message({
  id: text(1),
  metadata: part(2, message({ name: text(1), namespace: text(3) })),
});

const listPodSandbox = {
  path: "/runtime.v1.RuntimeService/ListPodSandbox",
  decode: message({ items: parts(1, podSandbox) }),
};

/** Without a filter, the runtime lists all sandboxes, including stopped ones. */
const noFilter = encodeTexts({});

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
  limits: Pick<UnaryCall, "timeoutMs" | "signal">,
): Promise<ListedSandbox[]> {
  const call = { socketPath, request: noFilter, ...limits };
  const { items } = await callUnary(listPodSandbox, call);
  return items.map(({ id, metadata }) => ({
    id,
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
  }));
}
