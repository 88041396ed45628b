/** The status codes of gRPC that anything here branches on (grpc.io, "Status codes"). */
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

/** A call that failed: the server said so, could not be reached, or did not answer in time. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  /** One of gRPC's status codes. */
  readonly status: number;
  /** What the server or the library says, in its own words. */
  readonly details: string;

  constructor(method: string, failure: { status: number; statusName: string; details: string }) {
    super(`${method}: ${failure.statusName}: ${failure.details}`);
    this.status = failure.status;
    this.details = failure.details;
  }
}
