/** What one check of `plexusctl doctor` has found. */
export interface Finding {
  /** What was looked at: `node configuration`. */
  readonly check: string;
  readonly verdict: "ok" | "warning" | "problem";
  /** One sentence; of a problem also what to do. */
  readonly text: string;
}

export function ok(check: string, text: string): Finding {
  return { check, verdict: "ok", text };
}

export function warning(check: string, text: string): Finding {
  return { check, verdict: "warning", text };
}

export function problem(check: string, text: string): Finding {
  return { check, verdict: "problem", text };
}
