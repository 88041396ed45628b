import { CniError, CniErrorCode } from "#cni/error.ts";

/** A default route that cannot be set as requested; `errno` is the kernel's when it refused, e.g. `ENETUNREACH`. */
export class RouteError extends CniError {
  override readonly name = "RouteError";
  readonly errno: string | undefined;

  constructor(message: string, options: { code?: number; errno?: string; cause?: unknown } = {}) {
    super(options.code ?? CniErrorCode.IoFailure, message, { cause: options.cause });
    this.errno = options.errno;
  }
}

/** A request that cannot be met unless the pod's annotation is changed: CNI code 100. */
export function invalidRoute(message: string): RouteError {
  return new RouteError(message, { code: CniErrorCode.InvalidRequest });
}
