import { createHash } from "node:crypto";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { unseenPathHint } from "#engine/plan/unseen-path.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { findCandidates, type PrimaryCandidate } from "./candidates.ts";
import { choosePrimary, type PrimaryChoice } from "./choose-primary.ts";

/** Options of a {@link PrimaryChooser}. */
export interface PrimaryChooserOptions {
  readonly files: ConfFiles;
  readonly goneMs: number;
}

/** Chooses the primary CNI's configuration from the files that exist now. */
export class PrimaryChooser {
  readonly #options: PrimaryChooserOptions;
  readonly #settleTimer = new SettleTimer();

  constructor(options: PrimaryChooserOptions) {
    this.#options = options;
  }

  /** The first choice waits for the readiness file. @throws Error if a directory is unreadable */
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
    const times = { unchangedMs, settleMs, goneMs };
    const choice = choosePrimary({ candidates, configured: primaryConf, previous, ...times });
    if (choice.kind !== "waiting") return choice;
    return { ...choice, reason: `${choice.reason}${whereHint(files, primaryDir)}` };
  }
}

/** Says so when the directory is empty because it is not mounted. */
function whereHint(files: ConfFiles, dir: string): string {
  const hint = unseenPathHint(files, dir);
  return hint === "" ? "" : `: ${dir} does not exist${hint}`;
}

/** Measures how long the candidates have not changed. */
class SettleTimer {
  #fingerprint = "";
  #unchangedSince = performance.now();

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
