import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";

export type ErrorCode = keyof typeof constants.errno;

/** Node makes this map anew for each call. */
const meanings = getSystemErrorMap();

/** Which system call failed, and on what. */
interface FailedCall {
  readonly syscall: string;
  readonly path?: string | undefined;
  readonly dest?: string | undefined;
}

/** Thrown by system calls of a killed process, whose code still runs until its next event. */
export class ProcessEndedError extends Error {
  override readonly name = "ProcessEndedError";

  constructor() {
    super("the process was killed");
  }
}

/** An error as node:fs throws it. */
export function systemError(code: ErrorCode, { syscall, path, dest }: FailedCall): Error {
  const errno = -constants.errno[code];
  const target = dest === undefined ? "" : ` -> '${dest}'`;
  const where = path === undefined ? "" : ` '${path}'${target}`;
  const [, meaning = code] = meanings.get(errno) ?? [];
  const error = new Error(`${code}: ${meaning}, ${syscall}${where}`);
  return Object.assign(error, {
    errno,
    code,
    syscall,
    ...(path !== undefined && { path }),
    ...(dest !== undefined && { dest }),
  });
}
