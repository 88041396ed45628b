import type { CallContext } from "#engine/deps.ts";
import { RefusedRequest } from "#engine/plan/refused-request.ts";
import type { Attached } from "#engine/planned-attachment.ts";
import { HostGoneError, type Pod } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";

/** The longest message about a failure of plugins, which may be long; the error object of the call has all of it. */
const messageMax = 300;

/** Whether an attachment is to be shown: plugins that only change what others made have none of their own. */
export function isVisible({ planned, result }: Attached): boolean {
  return planned.isAuxiliary !== true || result.interfaces.length + result.ips.length > 0;
}

/** Emits an event for each interface that the pod got, worded as Multus words it. */
export function emitAddedInterfaces(
  ctx: CallContext,
  pod: Pod | undefined,
  attached: readonly Attached[],
): void {
  if (pod === undefined) return;
  for (const { planned, result } of attached.filter(isVisible)) {
    const addresses = result.ips.map((ip) => ip.address).join(" ");
    const message = `Add ${planned.ifName} [${addresses}] from ${planned.displayName}`;
    ctx.deps.events.record(pod, { type: "Normal", reason: "AddedInterface", message });
  }
}

/** Emits the one event saying why the pod could not be attached; none when only its shim has gone. */
export function emitAttachFailed(ctx: CallContext, pod: Pod | undefined, error: unknown): void {
  if (pod === undefined || error instanceof HostGoneError) return;
  const refused = error instanceof RefusedRequest ? error : undefined;
  const message = refused?.message ?? errorMessage(error).slice(0, messageMax);
  const reason = refused?.reason ?? "AttachFailed";
  ctx.deps.events.record(pod, { type: "Warning", reason, message });
}
