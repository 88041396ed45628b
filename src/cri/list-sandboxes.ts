import { callUnary, type UnaryCall } from "#grpc/call-unary.ts";
import { message, parts, text } from "#grpc/message.ts";
import { encodeTexts } from "#grpc/wire.ts";

/*
 * The used part of the container runtime interface, runtime.v1 (k8s.io/cri-api,
 * pkg/apis/runtime/v1/api.proto). Field numbers never change; other fields are skipped.
 */

const listPodSandbox = {
  path: "/runtime.v1.RuntimeService/ListPodSandbox",
  decode: message({ items: parts(1, message({ id: text(1) })) }),
};

/** Without a filter, the runtime lists all sandboxes, including stopped ones. */
const noFilter = encodeTexts({});

/**
 * CNI's container IDs of the sandboxes of the runtime at a socket, also of stopped ones.
 * @throws GrpcError, MessageError
 */
export async function listSandboxes(
  socketPath: string,
  limits: Pick<UnaryCall, "timeoutMs" | "signal">,
): Promise<ReadonlySet<string>> {
  const call = { socketPath, request: noFilter, ...limits };
  const { items } = await callUnary(listPodSandbox, call);
  return new Set(items.map(({ id }) => id));
}
