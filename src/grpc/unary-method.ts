import type { MessageType } from "./message.ts";

/** A method with one request and one response. */
export interface UnaryMethod<Request, Response> {
  /** `/runtime.v1.RuntimeService/ListPodSandbox`. */
  readonly path: string;
  readonly request: MessageType<Request>;
  readonly response: MessageType<Response>;
}

/** Declares a method and infers the types of its messages. */
export function unaryMethod<Request, Response>(
  path: string,
  messages: Omit<UnaryMethod<Request, Response>, "path">,
): UnaryMethod<Request, Response> {
  return { path, ...messages };
}

/** Options of a call. */
export interface UnaryCallOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A client of one server. */
export interface UnaryClient extends Disposable {
  /** Makes one call without retries. @throws GrpcError; MessageError for an invalid response */
  call<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Partial<Request>,
    options: UnaryCallOptions,
  ): Promise<Response>;
}
