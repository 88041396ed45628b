import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, BootTime, FailedTeardown } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

const lastErrorMax = 1024;

type Failure = Pick<CniError, "message"> & Partial<Pick<CniError, "reason">>;

/** The error in the record while the other attachments are being detached. */
const interrupted: Failure = { message: "the last DEL was interrupted", reason: "TryAgainLater" };

/** What a record says after one more failure, with the first one in this boot. */
export function failedTeardown(
  { bootId, clock, now }: Pick<EngineDeps, "clock" | "bootId" | "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  { message: lastError, reason }: Failure,
): FailedTeardown & Required<Pick<FailedTeardown, "since">> {
  const failedAt = now();
  const current = { bootId: bootId(), clockMs: Math.floor(clock()) };
  const { firstFailedAt = failedAt, attempts = 0 } = teardown ?? {};
  const ofThisBoot = (time: BootTime | undefined): BootTime | undefined =>
    current.bootId !== "" && time?.bootId === current.bootId ? time : undefined;
  return omitUndefined({
    firstFailedAt,
    since: ofThisBoot(teardown?.since) ?? current,
    missingSince: ofThisBoot(teardown?.missingSince),
    ...{ failedAt, attempts: attempts + 1, lastError, reason },
  });
}

/** The failing DELs of a sandbox or an attachment, for the grace periods. */
export class FailingTeardown {
  readonly #deps: Pick<EngineDeps, "clock" | "bootId" | "now">;
  #last: ReturnType<typeof failedTeardown>;

  /** @param failed as its DELs have left it; the next one begins now */
  constructor(deps: EngineDeps, failed: Pick<AttachmentRecord, "teardown">) {
    this.#deps = deps;
    this.#last = failedTeardown(deps, failed, interrupted);
  }

  /** For how long they have failed, in milliseconds. */
  get failingMs(): number {
    return this.#deps.clock() - this.#last.since.clockMs;
  }

  /** Notes that a plugin is missing. @returns for how long the DELs have found that, in ms */
  readonly noteMissing = (): number => {
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
