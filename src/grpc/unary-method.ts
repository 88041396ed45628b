import type { MessageType } from "./message.ts";

/** A method with one request and one response. */
export interface UnaryMethod<Request, Response> {
  /** `/runtime.v1.RuntimeService/ListPodSandbox`. */
  readonly path: string;
  readonly request: MessageType<Request>;
  readonly response: MessageType<Response>;
}

/** Declares a method; the types of its messages follow. */
export function unaryMethod<Request, Response>(
  path: string,
  messages: Omit<UnaryMethod<Request, Response>, "path">,
): UnaryMethod<Request, Response> {
  return { path, ...messages };
}

/** How one call is made. */
export interface UnaryCallOptions {
  /** How long it may take. */
  readonly timeoutMs: number;
  /** Ends it early. */
  readonly signal?: AbortSignal;
}

/** A client of one server. */
export interface UnaryClient extends Disposable {
  /**
   * Makes one call, once.
   * @throws GrpcError when it fails; MessageError when the response is not the method's
   */
  call<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Partial<Request>,
    options: UnaryCallOptions,
  ): Promise<Response>;
}
