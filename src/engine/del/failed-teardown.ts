import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, FailedTeardown } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

const lastErrorMax = 1024;

type Failure = Pick<CniError, "message"> & Partial<Pick<CniError, "reason">>;

/** The error in the record while the other attachments are being detached. */
const interrupted: Failure = { message: "the last DEL was interrupted", reason: "TryAgainLater" };

/** What a record says after one more failure. @param error @default the DEL was interrupted */
export function failedTeardown(
  { now }: Pick<EngineDeps, "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  { message, reason }: Failure = interrupted,
): FailedTeardown {
  const failedAt = now();
  const { firstFailedAt = failedAt, attempts = 0 } = teardown ?? {};
  const lastError = message.slice(0, lastErrorMax);
  return omitUndefined({ firstFailedAt, failedAt, attempts: attempts + 1, lastError, reason });
}

/** The failing DELs of an attachment, for the grace period. */
export class FailingTeardown {
  readonly #deps: Pick<EngineDeps, "clock" | "bootId" | "now">;
  readonly #before: Pick<AttachmentRecord, "teardown">;
  #missingSince: FailedTeardown["missingSince"];

  /** @param before as its DELs have left it; the next one begins now */
  constructor(deps: EngineDeps, before: Pick<AttachmentRecord, "teardown">) {
    this.#deps = deps;
    this.#before = before;
  }

  /** Notes that the rest can be given up. @returns for how long DELs have found that, in ms */
  readonly noteGivenUp = (): number => {
    const clockMs = Math.floor(this.#deps.clock());
    const bootId = this.#deps.bootId();
    const { missingSince } = this.#before.teardown ?? {};
    const isOfThisBoot = bootId !== "" && missingSince?.bootId === bootId;
    this.#missingSince = isOfThisBoot ? missingSince : { bootId, clockMs };
    return clockMs - this.#missingSince.clockMs;
  };

  /** What to record now. The grace period restarts after a DEL that found more to do. */
  failed(error: Failure): FailedTeardown {
    // It has not come so far that it could find that.
    const isUnknown = error.reason === "TryAgainLater";
    const missingSince =
      this.#missingSince ?? (isUnknown ? this.#before.teardown?.missingSince : undefined);
    return omitUndefined({ ...failedTeardown(this.#deps, this.#before, error), missingSince });
  }
}

/** Emits the event of a pod whose sandbox could not be detached. */
export function emitLeftover(
  { deps }: CallContext,
  { pod }: Pick<AttachmentRecord, "pod">,
  reason: string,
): void {
  if (pod === undefined) return;
  const message = `could not be detached and stays recorded: ${reason}`;
  deps.events.record(pod, { type: "Warning", reason: "LeftoverAttachment", message });
}
