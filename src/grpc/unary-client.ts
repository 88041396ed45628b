import type { Client, ServiceError } from "@grpc/grpc-js";
import { MessageError } from "./wire.ts";

type GrpcLibrary = typeof import("@grpc/grpc-js");

/** The gRPC status codes that Plexus uses (grpc.io, "Status codes"). */
export const GrpcStatus = {
  Cancelled: 1,
  Unknown: 2,
  DeadlineExceeded: 4,
  NotFound: 5,
  ResourceExhausted: 8,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
} as const;

/** A call that failed: the server returned an error, was unreachable, or took too long. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  readonly status: number;
  /** The message of the server or the library. */
  readonly details: string;

  constructor(method: string, failure: { status: number; statusName: string; details: string }) {
    super(`${method}: ${failure.statusName}: ${failure.details}`);
    this.status = failure.status;
    this.details = failure.details;
  }
}

/** A method with one request and one response. */
export interface UnaryMethod<Response> {
  /** `/runtime.v1.RuntimeService/ListPodSandbox`. */
  readonly path: string;
  /** Reads a response. @throws MessageError */
  readonly decode: (bytes: Uint8Array) => Response;
}

/** One call of a method: its request is encoded. */
export interface UnaryCall {
  readonly request: Buffer;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The kubelet's limit for the answer of a container runtime. */
const maxResponseBytes = 16 * 1024 * 1024;

/**
 * Opens a client of the server at a Unix socket, to be disposed after use. The gRPC library takes
 * about 17 MB and 100 ms, so it is loaded with the first client.
 */
export async function openUnaryClient(socketPath: string): Promise<UnaryClient> {
  // A CommonJS module: the bundle has its members only in `default`.
  const { default: grpc } = await import("@grpc/grpc-js");
  // The library must not write failures to stderr: callers get them.
  grpc.setLogVerbosity(grpc.logVerbosity.NONE);
  const client = new grpc.Client(`unix:${socketPath}`, grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": maxResponseBytes,
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    // Retries are up to the caller.
    "grpc.enable_retries": 0,
  });
  return new UnaryClient(client, grpc);
}

/** A client of one server, from {@link openUnaryClient}. */
export class UnaryClient implements Disposable {
  readonly #client: Client;
  readonly #grpc: GrpcLibrary;

  constructor(client: Client, grpc: GrpcLibrary) {
    this.#client = client;
    this.#grpc = grpc;
  }

  /** Makes one call without retries. @throws GrpcError; MessageError for an invalid response */
  async call<Response>(
    { path, decode }: UnaryMethod<Response>,
    call: UnaryCall,
  ): Promise<Response> {
    const response = await this.#exchange(path, call);
    try {
      return decode(response);
    } catch (cause) {
      if (!(cause instanceof MessageError)) throw cause;
      throw new MessageError(`${path}: the response is not readable: ${cause.message}`, { cause });
    }
  }

  #exchange(path: string, { request, timeoutMs, signal }: UnaryCall): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest<Buffer, Buffer>(
        path,
        unchanged,
        unchanged,
        request,
        { deadline: Date.now() + timeoutMs },
        (error, response) => {
          signal?.removeEventListener("abort", cancel);
          if (error !== null) reject(this.#failure(path, error));
          else resolve(response ?? Buffer.alloc(0));
        },
      );
      const cancel = (): void => call.cancel();
      if (signal?.aborted === true) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  #failure(path: string, { code, details }: ServiceError): GrpcError {
    const status: number = code ?? GrpcStatus.Unknown;
    const statusName = this.#grpc.status[status] ?? `${status}`;
    return new GrpcError(path, { status, statusName, details });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

function unchanged(bytes: Buffer): Buffer {
  return bytes;
}
