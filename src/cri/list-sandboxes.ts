import { openUnaryClient } from "#grpc/open-client.ts";
import type { UnaryCallOptions } from "#grpc/unary-method.ts";
import { listPodSandbox } from "./runtime-service.ts";

/** As much as the kubelet accepts of a runtime. */
const maxResponseBytes = 16 * 1024 * 1024;

/** A sandbox as the container runtime lists it. */
export interface ListedSandbox {
  /** CNI's container ID. */
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * The sandboxes of the container runtime at this socket, those that are stopped and not removed included.
 * @throws GrpcError when it does not answer, or is none; MessageError when the answer is not readable
 */
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
