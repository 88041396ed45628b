import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, FailedTeardown } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

const lastErrorMax = 1024;

type Failure = Pick<CniError, "message"> & Partial<Pick<CniError, "reason">>;

/** The error in the record while the other attachments are being detached. */
const interrupted: Failure = { message: "the last DEL was interrupted", reason: "TryAgainLater" };

/** What a record says after one more failure. */
export function failedTeardown(
  { bootId, now }: Pick<EngineDeps, "bootId" | "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  { message: lastError, reason }: Failure,
): FailedTeardown {
  const failedAt = now();
  const { firstFailedAt = failedAt, attempts = 0, missingSince } = teardown ?? {};
  const isOfThisBoot = bootId() !== "" && missingSince?.bootId === bootId();
  return omitUndefined({
    ...{ firstFailedAt, missingSince: isOfThisBoot ? missingSince : undefined },
    ...{ failedAt, attempts: attempts + 1, lastError, reason },
  });
}

/** The failing DELs of a sandbox or an attachment, for the grace period. */
export class FailingTeardown {
  readonly #deps: Pick<EngineDeps, "clock" | "bootId" | "now">;
  #last: FailedTeardown;

  /** @param failed as its DELs have left it; the next one begins now */
  constructor(deps: EngineDeps, failed: Pick<AttachmentRecord, "teardown">) {
    this.#deps = deps;
    this.#last = failedTeardown(deps, failed, interrupted);
  }

  /** Notes that the rest can be given up. @returns for how long DELs have found that, in ms */
  readonly noteGivenUp = (): number => {
    const { clock, bootId } = this.#deps;
    const { missingSince = { bootId: bootId(), clockMs: Math.floor(clock()) } } = this.#last;
    this.#last = { ...this.#last, missingSince };
    return clock() - missingSince.clockMs;
  };

  /** What to record now. @param error @default the DEL was interrupted */
  failed({ message, reason }: Failure = interrupted): FailedTeardown {
    const lastError = message.slice(0, lastErrorMax);
    return omitUndefined({ ...this.#last, failedAt: this.#deps.now(), lastError, reason });
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
