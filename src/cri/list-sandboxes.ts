import { openUnaryClient } from "#grpc/open-client.ts";
import type { UnaryCallOptions } from "#grpc/unary-method.ts";
import { listPodSandbox } from "./runtime-service.ts";

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
