import { asCniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { isVisible } from "#engine/network-status/status-of-record.ts";
import type { Pod, StatusFailure } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { ignoredText } from "#npwg/served-requests.ts";
import type { Attached } from "./add-record.ts";

const messageMax = 300;

/**
 * Emits an event with all interfaces, worded as Multus's: one, to save API requests. Emits another
 * with the requests that its networks ignored, if there are any.
 */
export function emitAttached(
  ctx: CallContext,
  pod: Pod | undefined,
  attached: readonly Attached[],
): void {
  if (pod === undefined) return;
  const interfaces = attached.filter(isVisible).map(({ planned, result }) => {
    const addresses = result.ips.map((ip) => ip.address).join(" ");
    return `${planned.ifName} [${addresses}] from ${planned.displayName}`;
  });
  const added = `Add ${interfaces.join(", ")}`;
  ctx.deps.events.record(pod, { reason: "AddedInterface", message: added });
  const ignoring = attached.filter(({ ignoredRequests }) => ignoredRequests.length > 0);
  if (ignoring.length === 0) return;
  const sentences = ignoring.map(({ planned: { displayName, ifName, list }, ignoredRequests }) => {
    return `network ${displayName} (${ifName}): ${ignoredText(ignoredRequests, list)}`;
  });
  const message = sentences.join("; ").slice(0, messageMax);
  ctx.deps.events.record(pod, { reason: "IgnoredRequest", message });
}

/** Emits that a pod starts without its status. */
export function emitStatusLate(ctx: CallContext, pod: Pod, { message }: StatusFailure): void {
  const text = `network-status was not written before the pod's containers start (${message}): what reads it only then, such as an enforcer of network policies, has to read it again, or create the pod again`;
  ctx.deps.events.record(pod, { reason: "StatusLate", message: text });
}

/** Emits the one event saying why a pod could not be attached; none when only the shim has gone. */
export function emitAttachFailed(ctx: CallContext, pod: Pod | undefined, error: unknown): void {
  if (pod === undefined || error instanceof HostGoneError) return;
  const { reason, message, details = "" } = asCniError(error);
  // A plugin's words may be long.
  const max = reason === undefined ? messageMax : undefined;
  const parts = [message, details].filter((part) => part !== "").map((part) => part.slice(0, max));
  ctx.deps.events.record(pod, {
    reason: reason ?? "AttachFailed",
    message: parts.join("; "),
  });
}
