import { callUnary, type UnaryMethod } from "#grpc/call-unary.ts";
import { integer, message, part, text } from "#grpc/testing/message-types.ts";

/*
 * What a kubelet asks of a container runtime for a sandbox: runtime.v1 (k8s.io/cri-api,
 * pkg/apis/runtime/v1/api.proto).
 */

const metadata = message({ name: text(1), uid: text(2), namespace: text(3), attempt: integer(4) });
const linux = message({ cgroupParent: text(1) });
const config = message({
  metadata: part(1, metadata),
  hostname: text(2),
  logDirectory: text(3),
  linux: part(8, linux),
});
const runRequest = message({ config: part(1, config), runtimeHandler: text(2) });
const sandboxId = message({ id: text(1) });
const nothing = message({});

const service = "/runtime.v1.RuntimeService";
const runPodSandbox = { path: `${service}/RunPodSandbox`, decode: sandboxId.decode };
const stopPodSandbox = { path: `${service}/StopPodSandbox`, decode: nothing.decode };
const removePodSandbox = { path: `${service}/RemovePodSandbox`, decode: nothing.decode };

const timeoutMs = 60_000;

/** A pod whose sandbox is started. */
export interface SandboxPod {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly cgroupParent: string;
}

/** A container runtime, called as the kubelet does. */
export class Runtime {
  readonly #socketPath: string;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /** Starts a pod's sandbox with a handler, and returns its ID. */
  async run({ cgroupParent, ...identity }: SandboxPod, runtimeHandler: string): Promise<string> {
    const config = {
      metadata: { ...identity, attempt: 0 },
      hostname: identity.name,
      logDirectory: "/tmp",
      linux: { cgroupParent },
    };
    const { id } = await this.#call(runPodSandbox, runRequest.encode({ config, runtimeHandler }));
    return id;
  }

  async stop(id: string): Promise<void> {
    await this.#call(stopPodSandbox, sandboxId.encode({ id }));
  }

  async remove(id: string): Promise<void> {
    await this.#call(removePodSandbox, sandboxId.encode({ id }));
  }

  #call<Response>(method: UnaryMethod<Response>, request: Buffer): Promise<Response> {
    return callUnary(method, { socketPath: this.#socketPath, request, timeoutMs });
  }
}
