import type { ApiError } from "#kube/api/api-error.ts";
import type { RestartReason } from "#kube/metric-labels.ts";

/** The resource versions from which the next LIST and the next WATCH of a resource type start. */
export class WatchPosition {
  /** Where the next watch starts; undefined: after a LIST. */
  watchFrom: string | undefined;
  /** The oldest version that a LIST may return: "0" is any from the server's cache, "" the newest. */
  listFrom = "0";

  /** Everything up to this version is known. */
  reached(version: string): void {
    this.watchFrom = version;
    this.listFrom = version;
  }

  /** No watch from here gets an answer: a LIST may be older, as after a restore of etcd. */
  forget(): void {
    this.watchFrom = undefined;
    this.listFrom = "0";
  }

  /** A request failed. If its version is the reason, the next request is without it. */
  refused(error: ApiError): void {
    if (restartReason(error) === "expired" || error.isNotFound) {
      if (this.watchFrom === undefined) this.listFrom = "";
      this.watchFrom = undefined;
      return;
    }
    // 504 to a LIST: the server's own cache is older than the version.
    if (error.status === 504 && this.watchFrom === undefined) this.listFrom = "";
  }
}

/** The reason that an error stands for, except "absent", which only the cache can know. */
export function restartReason(error: ApiError): RestartReason {
  if (error.status === 410 || error.reason === "Expired") return "expired";
  if (error.status === 429) return "throttled";
  if (error.refused) return "refused";
  return error.status === 0 && error.reason === "" ? "disconnected" : "error";
}
