import { Mismatch, NoStatus, NotTestable } from "./expect.ts";
import { type Surroundings, Trial } from "./trial.ts";

/** A numbered requirement and how it is checked. */
export interface Requirement {
  readonly id: string;
  /** `none`: the standard does not have it. */
  readonly level: "MUST" | "SHOULD" | "MAY" | "none";
  /** `multus`: the standard does not have it, but users of Multus rely on it. */
  readonly kind: "standard" | "multus";
  readonly text: string;
  readonly check: Check;
}

/** Why a requirement cannot be tested from outside, or its check, which throws a Mismatch. */
type Check = string | ((trial: Trial) => Promise<void>);

/** The checks of some requirements, by identifier. */
export type Checks = Readonly<Record<string, Check>>;

/**
 * `absent`: the implementation does not do what it MAY do. `not testable` is neither passed nor failed.
 */
export type Verdict = "passed" | "failed" | "absent" | "not testable";

/** The outcome of a requirement, with a reason on one line unless it passed. */
export interface Finding {
  readonly requirement: Requirement;
  readonly verdict: Verdict;
  readonly reason: string;
  /** The pod had no network-status, which is optional. */
  readonly lacksStatus?: boolean;
}

/** How long a check may take. */
const timeoutMs = 60_000;

/** Checks a requirement with objects that only it uses, and removes them. */
export async function check(
  requirement: Requirement,
  surroundings: Surroundings,
): Promise<Finding> {
  const { check: run, level } = requirement;
  if (typeof run === "string") return { requirement, verdict: "not testable", reason: run };
  try {
    await using trial = new Trial(surroundings);
    await withTimeout(run(trial));
    return { requirement, verdict: "passed", reason: "" };
  } catch (error) {
    if (error instanceof NotTestable)
      return { requirement, verdict: "not testable", reason: error.message };
    const verdict = level === "MAY" ? "absent" : "failed";
    return {
      requirement,
      verdict,
      reason: reasonOf(error),
      lacksStatus: error instanceof NoStatus,
    };
  }
}

/** A cleanup's error does not hide the reason. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === "SuppressedError" && "suppressed" in error)
    return reasonOf(error.suppressed);
  const message = error instanceof Error ? error.message : String(error);
  const prefix = error instanceof Mismatch ? "" : "error: ";
  return `${prefix}${message}`.replaceAll(/\s+/g, " ").trim();
}

async function withTimeout(running: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Mismatch(`no result after ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([running, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
