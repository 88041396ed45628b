import type { ApiError } from "#kube/api/api-error.ts";
import type { RestartReason } from "#kube/metric-labels.ts";

/** The reason that an error stands for. "absent" is not among them: only the cache knows which types may be. */
export function restartReason(error: ApiError): RestartReason {
  if (error.status === 410 || error.reason === "Expired") return "expired";
  if (error.status === 429) return "throttled";
  if (error.refused) return "refused";
  return error.status === 0 && error.reason === "" ? "disconnected" : "error";
}
