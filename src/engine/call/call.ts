import type { CniError } from "#cni/error.ts";
import type { DelegateHost } from "#engine/ports.ts";

/** A call as the shim passes it on. */
export interface Call {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** What the shim prints, and its exit status. */
export interface CallAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The shim of one call: carries out the engine's orders until it goes. */
export interface CallHost extends DelegateHost {
  /** Aborted when the shim has gone. */
  readonly gone: AbortSignal;
}

/** How a call ended; `stdout` is the result or the error object that the runtime gets. */
export type CallOutcome =
  | { readonly status: "succeeded"; readonly stdout: string }
  | { readonly status: "failed"; readonly stdout: string; readonly error: CniError };
