import type { Requirement } from "../requirement.ts";

/** A row of a table of requirements: ID, text, and the check or why there is none. */
export type Row = readonly [id: string, text: string, check: Requirement["check"]];

/** Requirements of the standard at one level. */
export function standard(level: Requirement["level"], rows: readonly Row[]): Requirement[] {
  return rows.map(([id, text, check]) => ({ id, level, kind: "standard", text, check }));
}
