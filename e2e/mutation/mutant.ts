/** One small change of the product, and what the tests say of it. */
export interface Mutant {
  /** From the repository's root. */
  readonly file: string;
  readonly line: number;
  /** The code before and after, each on one line. */
  readonly before: string;
  readonly after: string;
  /** `killed`: a test fails. `survived`: all pass. `untested`: no test executes the line. */
  readonly outcome: "killed" | "survived" | "untested";
}

/** A mutant before the tests have run. */
export type MutantSource = Omit<Mutant, "outcome">;

/** Puts code on one line, as verdicts have it. */
export function oneLineOf(code: string): string {
  return code.replaceAll(/\s+/g, " ").trim();
}
