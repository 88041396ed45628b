import {
  Client,
  credentials,
  logVerbosity,
  Metadata,
  type ServiceError,
  setLogVerbosity,
  status,
} from "@grpc/grpc-js";
import { GrpcError, GrpcStatus } from "./grpc-error.ts";
import type { UnaryCallOptions, UnaryClient, UnaryMethod } from "./unary-method.ts";
import { MessageError } from "./wire.ts";

// The library must not write failures to stderr: callers get them.
setLogVerbosity(logVerbosity.NONE);

/** Imported by `openUnaryClient` only, on demand. */
export class UnixSocketClient implements UnaryClient {
  readonly #client: Client;

  constructor(socketPath: string, { maxResponseBytes }: { readonly maxResponseBytes: number }) {
    this.#client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": maxResponseBytes,
      "grpc.enable_http_proxy": 0,
      "grpc.service_config_disable_resolution": 1,
      // Retries are up to the caller.
      "grpc.enable_retries": 0,
    });
  }

  async call<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Partial<Request>,
    options: UnaryCallOptions,
  ): Promise<Response> {
    const { path } = method;
    const bytes = Buffer.from(method.request.encode(request));
    const response = await this.#exchange(path, bytes, options);
    try {
      return method.response.decode(response);
    } catch (cause) {
      if (!(cause instanceof MessageError)) throw cause;
      throw new MessageError(`${path}: the response is not readable: ${cause.message}`, { cause });
    }
  }

  #exchange(path: string, request: Buffer, options: UnaryCallOptions): Promise<Buffer> {
    const { timeoutMs, signal } = options;
    return new Promise((resolve, reject) => {
      const callOptions = { deadline: Date.now() + timeoutMs };
      const call = this.#client.makeUnaryRequest<Buffer, Buffer>(
        path,
        unchanged,
        unchanged,
        request,
        new Metadata(),
        callOptions,
        (error, response) => {
          signal?.removeEventListener("abort", cancel);
          if (error !== null) reject(failureOf(path, error));
          else resolve(response ?? Buffer.alloc(0));
        },
      );
      const cancel = (): void => call.cancel();
      if (signal?.aborted === true) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

function unchanged(bytes: Buffer): Buffer {
  return bytes;
}

function failureOf(path: string, { code, details }: ServiceError): GrpcError {
  const known: number = code ?? GrpcStatus.Unknown;
  return new GrpcError(path, { status: known, statusName: status[known] ?? `${known}`, details });
}
