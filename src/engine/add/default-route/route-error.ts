import { CniError, type Reason } from "#cni/error.ts";

/**
 * A default route that cannot be set; `errno` is the kernel's, e.g. `ENETUNREACH`, if it refused.
 */
export class RouteError extends CniError {
  override readonly name = "RouteError";
  readonly errno: string | undefined;

  constructor(message: string, options: { reason?: Reason; errno?: string; cause?: unknown } = {}) {
    super(options.reason ?? "IoFailure", message, { cause: options.cause });
    this.errno = options.errno;
  }
}

/** A request that cannot be met unless the pod's annotation is changed: CNI code 100. */
export function invalidRoute(message: string, reason: Reason = "InvalidRequest"): RouteError {
  return new RouteError(message, { reason });
}
