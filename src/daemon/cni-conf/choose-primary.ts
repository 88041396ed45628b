import { hash } from "node:crypto";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import type { OmittedPlugin } from "#engine/config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { unseenPathHint } from "#engine/ports/host.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { findCandidates, findFile, type Primary, type PrimaryCandidate } from "./candidates.ts";

/** A file that is taken over, and when (ISO 8601). */
export interface NextPrimary {
  readonly file: string;
  readonly at: string;
}

/** The choice that follows without a change of files. */
interface NextChoice extends NextPrimary {
  readonly inMs: number;
}

/** Which configuration is the primary CNI's. */
export type PrimaryChoice =
  | { readonly kind: "primary"; readonly primary: Primary; readonly next?: NextChoice }
  /** There is none yet, or the previous one is `lost`: missing or unusable. */
  | {
      readonly kind: "waiting";
      readonly reason: string;
      readonly lost?: string;
      readonly next?: NextChoice;
    }
  /** The daemon's configuration names the default network itself. */
  | { readonly kind: "not-needed" };

/** How long other files are waited for. */
export interface PrimaryTimes {
  /** Before the first choice: on a new node, another agent may write first. */
  readonly settleMs: number;
  /** How long a previous primary may be missing before another one replaces it. */
  readonly goneMs: number;
}

/** Chooses the primary CNI's configuration from the files that exist now. */
export class PrimaryChooser {
  readonly #files: ConfFiles;
  readonly #times: PrimaryTimes;
  #fingerprint = "";
  #unchangedSince = 0;

  constructor(files: ConfFiles, times: PrimaryTimes) {
    this.#files = files;
    this.#times = times;
  }

  /** The first choice waits for the readiness file. @throws Error if a directory is unreadable */
  async choose(
    spec: NodeConfSpec,
    {
      previous,
      isFirst,
      elsewhere,
    }: { previous: string | undefined; isFirst: boolean; elsewhere: readonly OmittedPlugin[] },
  ): Promise<PrimaryChoice> {
    const files = this.#files;
    const { readinessFile, primaryDir } = spec;
    if (isFirst && readinessFile !== undefined && (await files.kind(readinessFile)) === "absent") {
      const when = unseenPathHint(files, readinessFile) || " yet";
      const reason = `the readiness file ${readinessFile} does not exist${when}`;
      return { kind: "waiting", reason };
    }
    if (spec.withoutPrimary) return { kind: "not-needed" };
    const { binDirs } = spec;
    const candidates = await findCandidates({ dir: primaryDir, binDirs, files, elsewhere });
    const unchangedMs = this.#unchangedMs(candidates);
    const times = { ...this.#times, unchangedMs };
    const choice = choosePrimary(candidates, { configured: spec.primaryConf, previous, ...times });
    const hint = unseenPathHint(files, primaryDir);
    if (choice.kind !== "waiting" || hint === "") return choice;
    return { ...choice, reason: `${choice.reason}: ${primaryDir} does not exist${hint}` };
  }

  #unchangedMs(candidates: readonly PrimaryCandidate[]): number {
    const fingerprint = hash("sha256", JSON.stringify(candidates));
    const now = performance.now();
    if (fingerprint !== this.#fingerprint) this.#unchangedSince = now;
    this.#fingerprint = fingerprint;
    return now - this.#unchangedSince;
  }
}

/**
 * Chooses the primary CNI's configuration. A configured name is waited for. Otherwise it is the
 * file that the container runtime would use, the first in byte order, with these exceptions:
 * - The directory must have settled: at boot, the first agent to write may not be the node's CNI.
 * - The previous primary, also from before a restart, stays while no usable file sorts before it.
 * - A missing or broken previous primary is waited for, because its agent may be restarting.
 */
function choosePrimary(
  candidates: readonly PrimaryCandidate[],
  input: PrimaryTimes & {
    readonly configured: string | undefined;
    readonly previous: string | undefined;
    readonly unchangedMs: number;
  },
): PrimaryChoice {
  const { configured, previous } = input;
  if (configured !== undefined) {
    const candidate = findFile(candidates, configured);
    if (candidate?.kind === "usable") return { kind: "primary", primary: candidate };
    const lost = configured === previous ? configured : undefined;
    const reason = problemOf(configured, candidate);
    return omitUndefined({ kind: "waiting" as const, reason, lost });
  }
  const first = candidates.find((candidate) => candidate.kind === "usable");
  const known = findFile(candidates, previous);
  if (known?.kind === "usable" && first === known) return { kind: "primary", primary: known };
  const isMissing = previous !== undefined && known?.kind !== "usable";
  const leftMs = (isMissing ? goneMsOf(known, input) : input.settleMs) - input.unchangedMs;
  if (first !== undefined && leftMs <= 0) return { kind: "primary", primary: first };
  const next = first && nextChoice(first, leftMs);
  if (known?.kind === "usable") {
    return omitUndefined({ kind: "primary" as const, primary: known, next });
  }
  const reason = isMissing ? problemOf(previous, known) : noneYet(candidates, first);
  const lost = isMissing ? previous : undefined;
  return omitUndefined({ kind: "waiting" as const, reason, lost, next });
}

/** How long a previous primary is waited for. A copy of Plexus's file does not become it again. */
function goneMsOf(
  previous: PrimaryCandidate | undefined,
  { goneMs, settleMs }: PrimaryTimes,
): number {
  return previous?.kind === "unusable" && previous.isCopy === true ? settleMs : goneMs;
}

/** In whole seconds, so that it stays the same from round to round. */
function nextChoice({ file }: Primary, inMs: number): NextChoice {
  const seconds = Math.round((performance.timeOrigin + performance.now() + inMs) / 1000);
  return { file, inMs, at: new Date(seconds * 1000).toISOString() };
}

function problemOf(
  file: string,
  candidate: Exclude<PrimaryCandidate, Primary> | undefined,
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
