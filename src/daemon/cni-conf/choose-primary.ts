import type { NetConfList } from "#cni/conf/conf.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { PrimaryCandidate } from "./candidates.ts";

/** The primary CNI's configuration, to which the default network is delegated. */
export interface Primary {
  readonly file: string;
  readonly list: NetConfList;
  readonly warning?: string;
}

/** The input of {@link choosePrimary}. */
export interface PrimaryChoiceInput {
  readonly candidates: readonly PrimaryCandidate[];
  readonly configured: string | undefined;
  /** The previous primary, also from before a restart. */
  readonly previous: string | undefined;
  /** How long the candidates have not changed. */
  readonly unchangedMs: number;
  readonly settleMs: number;
  readonly goneMs: number;
}

/** Which configuration is the primary CNI's. */
export type PrimaryChoice =
  | { readonly kind: "primary"; readonly primary: Primary; readonly reconsiderMs?: number }
  /** There is none yet. `reconsiderMs`: when the choice may change without a change of files. */
  | { readonly kind: "waiting"; readonly reason: string; readonly reconsiderMs?: number }
  /** The daemon's configuration names the default network itself. */
  | { readonly kind: "not-needed" };

/**
 * Chooses the primary CNI's configuration. A configured name is waited for. Otherwise it is the
 * file that the container runtime would use, the first in byte order, with these exceptions:
 * - The directory must have settled: at boot, the first agent to write may not be the node's CNI.
 * - The previous primary stays while no usable file sorts before it.
 * - A missing or broken previous primary is waited for, because its agent may be restarting.
 */
export function choosePrimary(input: PrimaryChoiceInput): PrimaryChoice {
  const { candidates, configured, previous } = input;
  if (configured !== undefined) {
    const candidate = candidates.find((each) => each.file === configured);
    if (candidate?.kind === "usable") return { kind: "primary", primary: candidate };
    return { kind: "waiting", reason: problemOf(configured, candidate) };
  }
  const first = candidates.find((candidate) => candidate.kind === "usable");
  const known = candidates.find((candidate) => candidate.file === previous);
  if (known?.kind === "usable" && first === known) return { kind: "primary", primary: known };
  const isMissing = previous !== undefined && known?.kind !== "usable";
  const leftMs = (isMissing ? input.goneMs : input.settleMs) - input.unchangedMs;
  if (first !== undefined && leftMs <= 0) return { kind: "primary", primary: first };
  const reconsiderMs = first === undefined ? undefined : leftMs;
  if (known?.kind === "usable") {
    return omitUndefined({ kind: "primary" as const, primary: known, reconsiderMs });
  }
  const reason = isMissing ? problemOf(previous, known) : noneYet(candidates, first);
  return omitUndefined({ kind: "waiting" as const, reason, reconsiderMs });
}

function problemOf(
  file: string,
  candidate: Exclude<PrimaryCandidate, { kind: "usable" }> | undefined,
): string {
  if (candidate === undefined) return `the primary CNI's configuration ${file} is not there`;
  return `the primary CNI's configuration ${file} cannot be used: ${candidate.problem}`;
}

function noneYet(candidates: readonly PrimaryCandidate[], first: Primary | undefined): string {
  if (first !== undefined) return `waiting for other configurations before ${first.file} is taken`;
  const problems = candidates.flatMap((candidate) =>
    candidate.kind === "unusable" ? [`${candidate.file}: ${candidate.problem}`] : [],
  );
  if (problems.length === 0) return "there is no configuration of a primary CNI yet";
  return `no configuration of a primary CNI can be used yet: ${problems.join("; ")}`;
}
