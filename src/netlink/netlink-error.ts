import { constants } from "node:os";

/** A netlink request that the kernel refused or answered in a way that cannot be read. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  /** The symbol of the kernel's errno, e.g. `ENETUNREACH`; undefined where the kernel named none. */
  readonly errno: string | undefined;

  constructor(message: string, options: { errno?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.errno = options.errno;
  }
}

/** The symbol of a positive errno, e.g. `ESRCH`; `errno 512` where there is none. */
export function errnoName(errno: number): string {
  const found = Object.entries(constants.errno).find(([, value]) => value === errno);
  return found?.[0] ?? `errno ${errno}`;
}
