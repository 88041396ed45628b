import { type Condition, type Reason, type Verdict, verdictOf } from "#lib/reasons.ts";

/** What one check of `plexusctl doctor` has found. */
export interface Finding {
  /** What was looked at: `node configuration`. */
  readonly check: string;
  /** Stable, for scripts. */
  readonly reason: string;
  readonly verdict: Verdict;
  /** One sentence; of a problem also what to do. */
  readonly text: string;
}

/** A finding with its reason's verdict. */
export function found(reason: Condition | Reason, check: string, text: string): Finding {
  return { check, reason, verdict: verdictOf(reason), text };
}

const order: readonly Verdict[] = ["problem", "warning", "ok"];

/** The worst first. */
export function worstFirst(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict));
}
