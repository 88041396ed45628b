import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { oneLine } from "#lib/one-line.ts";

/**
 * The error codes of the CNI specification (1.1.0 §5 "Error") and the library's own 0, 8 and 999.
 * Codes from 100 on are Plexus's own; docs/operations/troubleshooting.md lists them.
 */
export const CniErrorCode = {
  Unknown: 0,
  IncompatibleCniVersion: 1,
  UnsupportedField: 2,
  UnknownContainer: 3,
  InvalidEnvironmentVariables: 4,
  IoFailure: 5,
  DecodingFailure: 6,
  InvalidNetworkConfig: 7,
  InvalidNetns: 8,
  TryAgainLater: 11,
  PluginNotAvailable: 50,
  LimitedConnectivity: 51,
  /** The pod's request cannot be met as written: its annotation, or what it names, must change. */
  InvalidRequest: 100,
  /** The pod may not use the network it names. */
  AccessDenied: 101,
  /** Detaching left something behind; the record stays so that it can be tried again. */
  TeardownIncomplete: 102,
  /** The sandbox interface is attached already; the runtime must DEL before it ADDs again. */
  AlreadyAttached: 103,
  Internal: 999,
} as const;

/** The error object that a plugin prints: CNI 1.1.0 §5 "Error". */
interface CniErrorJson {
  readonly cniVersion?: string;
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

/** What a {@link CniError} carries beside its code and message. */
export interface CniErrorOptions {
  readonly details?: string;
  readonly cause?: unknown;
}

/**
 * An error for a container runtime: a CNI code, one line that a node operator can act
 * on, and the cause.
 */
export class CniError extends Error {
  override readonly name: string = "CniError";
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, options: CniErrorOptions = {}) {
    super(message, omitUndefined({ cause: options.cause }));
    this.code = code;
    this.details = options.details;
  }

  /** The wire form; `details` only when there are any. */
  toJSON(): CniErrorJson {
    return omitUndefined({
      code: this.code,
      msg: this.message,
      details: this.details || undefined,
    });
  }
}

/** Passes a {@link CniError} through; anything else becomes code 999 with the chain of causes in one line. */
export function asCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  return new CniError(CniErrorCode.Internal, flattenCauses(error), { cause: error });
}

/** The messages of an error and its causes, outermost first, in one line; repeats are left out. */
export function flattenCauses(error: unknown): string {
  const parts: string[] = [];
  for (let e: unknown = error, depth = 0; e !== undefined && depth < 8; depth++) {
    const text = oneLine(errorMessage(e));
    if (!parts.some((part) => part.includes(text))) parts.push(text);
    e = e instanceof Error ? e.cause : undefined;
  }
  return parts.join(": ");
}
