import type { NetConfList } from "#cni/conf/conf.ts";
import type { Candidate } from "./primary.ts";

/** The primary to delegate to. */
export interface Primary {
  readonly file: string;
  readonly list: NetConfList;
}

/** What {@link choosePrimary} goes by. */
export interface Situation {
  readonly candidates: readonly Candidate[];
  /** The file that the operator named. */
  readonly wanted: string | undefined;
  /** The file that was the primary before, also before a restart. */
  readonly previous: string | undefined;
  /** Since when the candidates are what they are. */
  readonly unchangedMs: number;
  readonly settleMs: number;
  /** How long a previous primary may be away before another is taken for its successor. */
  readonly goneMs: number;
}

/** A primary, or why there is none now and when to look again at the latest. */
export type Choice =
  | { readonly primary: Primary }
  | { readonly waiting: string; readonly againMs?: number };

/**
 * Chooses the primary CNI's configuration. A name that the operator gave is waited for. Else it is
 * the file that the container runtime would take, the first in byte order, but
 * - only once the directory has settled: the first agent to write its file at boot is not always
 *   the node's CNI;
 * - the previous primary stays while no usable file sorts before it;
 * - a previous primary that is away or broken (its agent restarts and rewrites its file) is waited
 *   for before another one, which may always have been there, is taken instead.
 */
export function choosePrimary(situation: Situation): Choice {
  const { candidates, wanted, previous } = situation;
  if (wanted !== undefined) {
    const candidate = candidates.find((each) => each.file === wanted);
    return usable(candidate) ?? { waiting: problemOf(wanted, candidate) };
  }
  const first = candidates.map(usable).find((choice) => choice !== undefined);
  const known = candidates.find((each) => each.file === previous);
  const same = usable(known);
  if (same !== undefined && first?.primary.file === previous) return same;
  const isAway = previous !== undefined && same === undefined;
  const delayMs = isAway ? situation.goneMs : situation.settleMs;
  const leftMs = delayMs - situation.unchangedMs;
  if (first !== undefined && leftMs <= 0) return first;
  if (same !== undefined) return { ...same, ...(first && { againMs: leftMs }) };
  const why = isAway ? problemOf(previous, known) : noneYet(candidates, first);
  return { waiting: why, ...(first !== undefined && { againMs: leftMs }) };
}

function usable(candidate: Candidate | undefined): { primary: Primary } | undefined {
  if (candidate?.list === undefined) return undefined;
  return { primary: { file: candidate.file, list: candidate.list } };
}

function problemOf(file: string, candidate: Candidate | undefined): string {
  if (candidate === undefined) return `the primary CNI's configuration ${file} is not there`;
  return `the primary CNI's configuration ${file} cannot be used: ${candidate.problem ?? ""}`;
}

function noneYet(
  candidates: readonly Candidate[],
  first: { primary: Primary } | undefined,
): string {
  if (first !== undefined)
    return `waiting for other configurations before ${first.primary.file} is taken`;
  const problems = candidates.map(({ file, problem }) => `${file}: ${problem}`);
  if (problems.length === 0) return "there is no configuration of a primary CNI yet";
  return `no configuration of a primary CNI can be used yet: ${problems.join("; ")}`;
}
