import { constants } from "node:os";

/** A netlink request that the kernel rejected, or whose answer is invalid. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  /** The symbol of the kernel's errno, e.g. `ENETUNREACH`, if there is one. */
  readonly errno: string | undefined;

  constructor(message: string, options: { errno?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.errno = options.errno;
  }
}

/** The symbol of a positive errno, e.g. `ESRCH`, or `errno 512` for an unknown one. */
export function errnoName(errno: number): string {
  const found = Object.entries(constants.errno).find(([, value]) => value === errno);
  return found?.[0] ?? `errno ${errno}`;
}
