/** One execution of one CNI plugin: CNI 1.1.0 §2 "Execution protocol". */
export interface DelegateCall {
  readonly type: string;
  readonly searchPath: readonly string[];
  /** The CNI_* variables; the rest of the environment is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
  /** After this many milliseconds the delegate is killed with its process group. */
  readonly timeoutMs: number;
  /** Further types: if one of them is missing or refused, this delegate is not executed either. */
  readonly requires?: readonly string[];
}

/** How an execution ended. The output is complete only after `exited`. */
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
  /** The reason in one line, except for `exited`. */
  readonly message: string;
  readonly elapsedUs: number;
}

/** Whether the delegate ran: not when it, or one that it {@link DelegateCall.requires}, cannot. */
export function wasExecuted({ outcome }: DelegateOutcome): boolean {
  return outcome !== "missing" && outcome !== "refused";
}

/** Runs a delegate. Resolves with any exit status; rejects only when nothing can be run. */
export type RunDelegate = (call: DelegateCall) => Promise<DelegateOutcome>;
