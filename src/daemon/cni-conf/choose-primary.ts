import type { NetConfList } from "#cni/conf/conf.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { PrimaryCandidate } from "./candidates.ts";

/** The primary CNI's configuration, to which the default network is delegated. */
export interface Primary {
  readonly file: string;
  readonly list: NetConfList;
  /** What plexusd cannot see of its plugins, one sentence. */
  readonly warning?: string;
}

/** What {@link choosePrimary} decides from. */
export interface PrimaryChoiceInput {
  readonly candidates: readonly PrimaryCandidate[];
  /** The file that the operator named. */
  readonly configured: string | undefined;
  /** The file that was the primary before, also before a restart. */
  readonly previous: string | undefined;
  /** Since when the candidates are what they are. */
  readonly unchangedMs: number;
  readonly settleMs: number;
  /** How long a previous primary may be away before another is taken for its successor. */
  readonly goneMs: number;
}

/** Which configuration is the primary CNI's. */
export type PrimaryChoice =
  | { readonly kind: "primary"; readonly primary: Primary; readonly reconsiderMs?: number }
  /** There is none yet; `reconsiderMs`: after so long the choice may be another one. */
  | { readonly kind: "waiting"; readonly reason: string; readonly reconsiderMs?: number }
  /** The daemon's configuration names the default network itself. */
  | { readonly kind: "not-needed" };

/**
 * Chooses the primary CNI's configuration. A name that the operator gave is waited for. Else it is
 * the file that the container runtime would take, the first in byte order, but
 * - only once the directory has settled: the first agent to write its file at boot is not always
 *   the node's CNI;
 * - the previous primary stays while no usable file sorts before it;
 * - a previous primary that is away or broken (its agent restarts and rewrites its file) is waited
 *   for before another one, which may always have been there, is taken instead.
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
  const isAway = previous !== undefined && known?.kind !== "usable";
  const leftMs = (isAway ? input.goneMs : input.settleMs) - input.unchangedMs;
  if (first !== undefined && leftMs <= 0) return { kind: "primary", primary: first };
  const reconsiderMs = first === undefined ? undefined : leftMs;
  if (known?.kind === "usable") {
    return omitUndefined({ kind: "primary" as const, primary: known, reconsiderMs });
  }
  const reason = isAway ? problemOf(previous, known) : noneYet(candidates, first);
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
