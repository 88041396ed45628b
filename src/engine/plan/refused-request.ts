import { CniError } from "#cni/error.ts";
import type { EventReason } from "#engine/ports.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A request of a pod that is refused for a reason that its event names. */
export class RefusedRequest extends CniError {
  override readonly name = "RefusedRequest";
  readonly reason: EventReason;

  /** Takes code and message of the error that says why. */
  constructor(reason: EventReason, cause: CniError) {
    super(cause.code, cause.message, omitUndefined({ cause, details: cause.details }));
    this.reason = reason;
  }
}
