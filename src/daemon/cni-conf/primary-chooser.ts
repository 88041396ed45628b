import { createHash } from "node:crypto";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { unseenPathHint } from "#engine/plan/unseen-path.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { findCandidates, type PrimaryCandidate } from "./candidates.ts";
import { choosePrimary, type PrimaryChoice } from "./choose-primary.ts";

/** Options of a {@link PrimaryChooser}. */
export interface PrimaryChooserOptions {
  readonly files: ConfFiles;
  /** How long a previous primary may be away before another is taken for its successor. */
  readonly goneMs: number;
}

/** Chooses the primary CNI's configuration among what the directories hold now. */
export class PrimaryChooser {
  readonly #options: PrimaryChooserOptions;
  readonly #settleTimer = new SettleTimer();

  constructor(options: PrimaryChooserOptions) {
    this.#options = options;
  }

  /**
   * `previous` is the file that was the primary before. Only the first time the readiness file is
   * waited for. @throws Error when the primary CNI's directory cannot be read
   */
  async choose(
    spec: NodeConfSpec,
    { previous, isFirst }: { previous: string | undefined; isFirst: boolean },
  ): Promise<PrimaryChoice> {
    const { files, goneMs } = this.#options;
    const { readinessFile, primaryDir, primaryConf, settleMs } = spec;
    if (isFirst && readinessFile !== undefined && (await files.kind(readinessFile)) === "absent") {
      const hint = unseenPathHint(files, readinessFile);
      const when = hint === "" ? " yet" : hint;
      return {
        kind: "waiting",
        reason: `the readiness file ${readinessFile} does not exist${when}`,
      };
    }
    if (spec.withoutPrimary) return { kind: "not-needed" };
    const candidates = await findCandidates({ dir: primaryDir, binDirs: spec.binDirs, files });
    const unchangedMs = this.#settleTimer.unchangedMs(candidates);
    const configured = primaryConf;
    const choice = choosePrimary({
      candidates,
      configured,
      previous,
      unchangedMs,
      settleMs,
      goneMs,
    });
    if (choice.kind !== "waiting") return choice;
    return { ...choice, reason: `${choice.reason}${whereHint(files, primaryDir)}` };
  }
}

/** Why there is nothing in the directory, where that is because it is not mounted. */
function whereHint(files: ConfFiles, dir: string): string {
  const hint = unseenPathHint(files, dir);
  return hint === "" ? "" : `: ${dir} does not exist${hint}`;
}

/** Measures since when the candidates are what they are. */
class SettleTimer {
  #fingerprint = "";
  #unchangedSince = performance.now();

  /** How long the candidates have been these, with this content. */
  unchangedMs(candidates: readonly PrimaryCandidate[]): number {
    const fingerprint = fingerprintOf(candidates);
    if (fingerprint !== this.#fingerprint) this.#unchangedSince = performance.now();
    this.#fingerprint = fingerprint;
    return performance.now() - this.#unchangedSince;
  }
}

function fingerprintOf(candidates: readonly PrimaryCandidate[]): string {
  const hash = createHash("sha256");
  for (const candidate of candidates) {
    const content = candidate.kind === "usable" ? candidate.list.raw : candidate.problem;
    hash.update(JSON.stringify([candidate.file, candidate.kind, content]));
  }
  return hash.digest("hex");
}
