import { CniError } from "#cni/error.ts";
import type { Result } from "#cni/result/result.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { type IgnoredRequest, ignoredRequests, ignoredText } from "#npwg/served-requests.ts";

/**
 * The requests of the pod that a network ignored, according to its result; logs a warning.
 * @throws CniError 100 naming plugins, keys and values, unless the configuration attaches such pods
 */
export function acceptIgnoredRequests(
  ctx: CallContext,
  { selection, list, ifName, displayName }: PlannedAttachment,
  result: Result,
): readonly IgnoredRequest[] {
  if (selection === undefined) return [];
  const ignored = ignoredRequests(selection, { ifName, list, result });
  if (ignored.length === 0) return ignored;
  const text = ignoredText(ignored, list);
  if (ctx.config.ignoredRequests === "fail") throw new CniError("IgnoredRequest", text);
  ctx.logger.warn({ network: displayName, ifName }, `network ${displayName} (${ifName}): ${text}`);
  return ignored;
}
