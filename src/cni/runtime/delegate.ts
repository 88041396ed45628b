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

/**
 * The errno of an executable without its interpreter or ELF loader, of another architecture, that may
 * not be executed, or whose loader is none.
 */
const notExecutable: ReadonlySet<number> = new Set([2, 8, 13, 80]);

/** Whether a delegate, or one that it {@link DelegateCall.requires}, is missing or cannot be executed. */
export function isNotExecutable({
  outcome,
  code,
}: Pick<DelegateOutcome, "outcome" | "code">): boolean {
  return outcome === "missing" || (outcome === "failed" && notExecutable.has(code));
}

/** Whether a delegate ran, or may have: not if it {@link isNotExecutable}, or the shim refused it. */
export function wasExecuted(outcome: DelegateOutcome): boolean {
  return outcome.outcome !== "refused" && !isNotExecutable(outcome);
}

/** Runs a delegate. Resolves with any exit status; rejects only when nothing can be run. */
export type RunDelegate = (call: DelegateCall) => Promise<DelegateOutcome>;
