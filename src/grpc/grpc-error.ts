/** The gRPC status codes that Plexus uses (grpc.io, "Status codes"). */
export const GrpcStatus = {
  Cancelled: 1,
  Unknown: 2,
  DeadlineExceeded: 4,
  NotFound: 5,
  ResourceExhausted: 8,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
} as const;

/** A call that failed: the server returned an error, was unreachable, or took too long. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  readonly status: number;
  /** The message of the server or the library. */
  readonly details: string;

  constructor(method: string, failure: { status: number; statusName: string; details: string }) {
    super(`${method}: ${failure.statusName}: ${failure.details}`);
    this.status = failure.status;
    this.details = failure.details;
  }
}
