import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { oneLine, printable } from "#lib/one-line.ts";
import { type Reason, reasonRow } from "#lib/reasons.ts";

/** The error codes of CNI 1.1.0 §5 "Error", libcni's 0, 8 and 999, and Plexus's from 100 on. */
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
  /** The pod's request cannot be met: its annotation, or an object it names, must change. */
  InvalidRequest: 100,
  /** The pod may not use the network it names. */
  AccessDenied: 101,
  /** Detaching was incomplete; the record stays for the next attempt. */
  TeardownIncomplete: 102,
  /** The sandbox interface is already attached; the runtime must DEL it before the next ADD. */
  AlreadyAttached: 103,
  Internal: 999,
} as const;

export interface CniErrorOptions {
  readonly details?: string | undefined;
  /** Of an error that is given by its code: the error of a plugin has none. */
  readonly reason?: Reason | undefined;
  /** The network that it concerns, for people: `shop/storage (net1)`. */
  readonly subject?: string | undefined;
  readonly cause?: unknown;
}

/** An error for a container runtime: a CNI code, one line for a node operator, and the cause. */
export class CniError extends Error {
  override readonly name: string = "CniError";
  readonly code: number;
  readonly reason: Reason | undefined;
  readonly details: string | undefined;
  readonly subject: string | undefined;

  /** An error for a reason, with its code; or with the code of another error, and its reason, if any. */
  constructor(what: Reason | number, message: string, options: CniErrorOptions = {}) {
    super(printable(message), omitUndefined({ cause: options.cause }));
    this.code = typeof what === "number" ? what : reasonRow(what).code;
    this.reason = typeof what === "number" ? options.reason : what;
    this.details = options.details && printable(options.details);
    this.subject = options.subject;
  }

  withMessage(message: string, subject = this.subject): CniError {
    const { code, details, reason } = this;
    return new CniError(code, message, { details, reason, subject, cause: this });
  }

  /** The same error about a network, which its message does not need to name. */
  about(subject: string): CniError {
    return this.withMessage(this.message, subject);
  }

  /** The same error about a network, which its message names. */
  of(subject: string): CniError {
    return this.withMessage(`${subjectPrefix(subject)}${this.message}`, subject);
  }

  /** Whether the runtime may repeat the same call (code 11). */
  get transient(): boolean {
    return this.code === CniErrorCode.TryAgainLater;
  }

  /** The message with the details, in libcni's form. */
  get text(): string {
    return this.details === undefined ? this.message : `${this.message}; ${this.details}`;
  }

  /** The wire form (CNI 1.1.0 §5 "Error"). `details` begins with `reason=`, unless the error is a plugin's. */
  toJSON(): { readonly code: number; readonly msg: string; readonly details?: string } {
    const parts = [this.reason && `reason=${this.reason}`, this.details];
    return omitUndefined({
      code: this.code,
      msg: this.message,
      details: parts.filter(Boolean).join("; ") || undefined,
    });
  }
}

/** How the message of an error begins that names its subject. */
export function subjectPrefix(subject: string): string {
  return `network ${subject}: `;
}

/** The message of an error about a subject, without its beginning that names it or its network. */
export function withoutSubject(message: string, subject: string): string {
  const [network = ""] = subject.split(" (");
  const prefix = [subject, network].map(subjectPrefix).find((each) => message.startsWith(each));
  return message.slice(prefix?.length ?? 0);
}

/** The same error with the network and interface for which it happened. */
export function withNetworkContext(
  error: unknown,
  { displayName, ifName }: { readonly displayName: string; readonly ifName: string },
): unknown {
  return error instanceof CniError ? error.of(`${displayName} (${ifName})`) : error;
}

/** Returns a {@link CniError} unchanged; any other error becomes code 999 with its causes. */
export function asCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  return new CniError("Internal", flattenCauses(error), { cause: error });
}

/** The error of JavaScript itself, if one is or caused the error: that is a defect of Plexus. */
export function defectIn(error: unknown): Error | undefined {
  if (error instanceof AggregateError) return error.errors.map(defectIn).find(Boolean);
  if (error instanceof CniError) {
    // The causes of others are expected, such as an address that cannot be read.
    const isOpen = error.reason === "Internal" || error.cause instanceof AggregateError;
    return isOpen ? defectIn(error.cause) : undefined;
  }
  const kinds = [TypeError, RangeError, ReferenceError];
  return kinds.some((kind) => error instanceof kind) ? (error as Error) : undefined;
}

/** The messages of an error and its causes in one line, outermost first, without repetitions. */
export function flattenCauses(error: unknown): string {
  const parts: string[] = [];
  for (let e: unknown = error, depth = 0; e !== undefined && depth < 8; depth++) {
    const text = oneLine(errorMessage(e));
    if (!parts.some((part) => part.includes(text))) parts.push(text);
    e = e instanceof Error ? e.cause : undefined;
  }
  return parts.join(": ");
}
