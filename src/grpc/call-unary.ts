import type { Client, ServiceError } from "@grpc/grpc-js";
import { MessageError } from "./wire.ts";

/** The gRPC status codes that Plexus uses (grpc.io, "Status codes"). */
export const GrpcStatus = {
  Cancelled: 1,
  Unknown: 2,
  DeadlineExceeded: 4,
  NotFound: 5,
  ResourceExhausted: 8,
  Unimplemented: 12,
  Unavailable: 14,
} as const;

/** A call that failed: the server returned an error, was unreachable, or took too long. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  readonly status: number;
  /** The message of the server or the library. */
  readonly details: string;

  constructor(method: string, { message, code, details }: ServiceError) {
    // The library's message: the number of the status, its name, and the details.
    super(`${method}: ${message.replace(/^\d+ /, "")}`);
    this.status = code;
    this.details = details;
  }
}

/** A method with one request and one response. */
export interface UnaryMethod<Response> {
  /** `/runtime.v1.RuntimeService/ListPodSandbox`. */
  readonly path: string;
  /** Reads a response. @throws MessageError */
  readonly decode: (bytes: Uint8Array) => Response;
}

/** One call of a method. */
export interface UnaryCall {
  /** The server's Unix socket. */
  readonly socketPath: string;
  /** Encoded. */
  readonly request: Buffer;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The kubelet's limit for the answer of a container runtime. */
const maxResponseBytes = 16 * 1024 * 1024;

/**
 * Calls a method over a separate connection, without retries. The gRPC library takes about 17 MB
 * and 100 ms, so it is loaded with the first call.
 * @throws GrpcError; MessageError for an invalid response
 */
export async function callUnary<Response>(
  { path, decode }: UnaryMethod<Response>,
  call: UnaryCall,
): Promise<Response> {
  // A CommonJS module: the bundle has its members only in `default`.
  const { default: grpc } = await import("@grpc/grpc-js");
  // The library must not write failures to stderr: callers get them.
  grpc.setLogVerbosity(grpc.logVerbosity.NONE);
  const client = new grpc.Client(`unix:${call.socketPath}`, grpc.credentials.createInsecure(), {
    "grpc.max_receive_message_length": maxResponseBytes,
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    // Retries are up to the caller.
    "grpc.enable_retries": 0,
  });
  try {
    return decode(await exchange(client, path, call));
  } catch (cause) {
    if (!(cause instanceof MessageError)) throw cause;
    throw new MessageError(`${path}: the response is not readable: ${cause.message}`, { cause });
  } finally {
    client.close();
  }
}

function exchange(
  client: Client,
  path: string,
  { request, timeoutMs, signal }: UnaryCall,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const call = client.makeUnaryRequest<Buffer, Buffer>(
      path,
      unchanged,
      unchanged,
      request,
      { deadline: Date.now() + timeoutMs },
      (error, response) => {
        signal?.removeEventListener("abort", cancel);
        if (error !== null) reject(new GrpcError(path, error));
        else resolve(response ?? Buffer.alloc(0));
      },
    );
    const cancel = (): void => call.cancel();
    if (signal?.aborted === true) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
  });
}

function unchanged(bytes: Buffer): Buffer {
  return bytes;
}
