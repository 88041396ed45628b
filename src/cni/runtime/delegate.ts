/** One execution of one CNI plugin: CNI 1.1.0 §2 "Execution protocol". */
export interface DelegateCall {
  /** The plugin's executable name: the conf's `type`. */
  readonly type: string;
  /** Directories in which to look for it, in order. */
  readonly searchPath: readonly string[];
  /** CNI_* variables; the rest of the environment is the runtime's own. */
  readonly env: Readonly<Record<string, string>>;
  /** The plugin's configuration, as JSON. */
  readonly stdin: string;
  /** After this many milliseconds the delegate is killed with its process group. */
  readonly timeoutMs: number;
}

/** How an execution ended; only after `exited` does the output come from a complete run. */
export interface DelegateOutcome {
  readonly outcome:
    | "exited"
    | "signaled"
    | "timeout"
    | "overflow"
    | "missing"
    | "refused"
    | "failed";
  /** Exit status, signal number or errno, by outcome. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** One line of why, for every outcome but `exited`. */
  readonly message: string;
  readonly elapsedUs: number;
}

/** Runs a delegate; resolves whatever its exit status is, rejects only when nothing can be run at all. */
export type RunDelegate = (call: DelegateCall) => Promise<DelegateOutcome>;
