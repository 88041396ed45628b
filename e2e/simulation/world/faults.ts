import type { DelegateCall } from "#cni/runtime/delegate.ts";

/** How a delegate behaves in one call. */
export type DelegateBehaviour =
  /** Does its work. */
  | "works"
  /** Ends with a CNI error and has changed nothing. */
  | "fails before its work"
  /** Ends with a CNI error although it has done its work. */
  | "fails after its work"
  /** Ends with a CNI error after its first step (an address is allocated, or a link made). */
  | "fails between"
  /** Exits with an error status and no error object, before or after its work. */
  | "crashes before its work"
  | "crashes after its work"
  /** Dies by a signal, before or after its work. */
  | "dies before its work"
  | "dies after its work"
  /** Never ends by itself. */
  | "hangs before its work"
  | "hangs after its work"
  /** Does its work, and says it in no or in unusable words. */
  | "says nothing"
  | "says nonsense"
  /** Leaves a child that has its pipes and its lock, does the work later, and ends then. */
  | "leaves a child"
  /** Never ends, nor does its child, which does the work after a while. */
  | "hangs with a child";

/** What the history does to one delegate. */
export interface DelegateFault {
  readonly behaviour: DelegateBehaviour;
  /** How long it runs, in microseconds, if it ends. */
  readonly durationUs: number;
}

/** How one request to the API server ends. */
export type RequestOutcome =
  | "answered"
  /** The request, or only its answer, is lost: nothing comes until the client gives up. */
  | "request lost"
  | "answer lost"
  /** The connection breaks at once, before or after the server has processed the request. */
  | "refused"
  | "broken"
  /** It arrives after the client has given up, and the server processes it. */
  | "late"
  /** HTTP 400, 403 and 422, as of a policy server that is unavailable. */
  | "bad request"
  | "forbidden"
  | "invalid"
  /** HTTP 409 for a write that is not about the UID, 429 with Retry-After, 500 and 503. */
  | "conflict"
  | "too many requests"
  | "internal error"
  | "unavailable"
  /** A read that shows an earlier state, as from the server's cache. */
  | "old";

/** What the history does to one request. */
export interface RequestFault {
  readonly outcome: RequestOutcome;
  readonly delayUs: number;
}

/** What happens before an operation that changes the disk. */
export type DiskFault = "none" | "process killed" | "power lost" | "ENOSPC" | "EIO" | "EROFS";

/** What the history does at the ports. The parts of the world ask it each time. */
export interface Faults {
  delegate(call: DelegateCall): DelegateFault;
  request(method: string, path: string): RequestFault;
  /** Microseconds until the next event of a watch arrives; "ends" and "expires" (410) end it. */
  watch(): number | "ends" | "expires" | "silent";
  disk(operation: string, path: string): DiskFault;
}
