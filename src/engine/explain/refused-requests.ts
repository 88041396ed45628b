import type { CallHistory } from "./call-history.ts";
import { explainError } from "./explain-error.ts";

/** Pods that `undeclaredRequests` or `ignoredRequests` prevent from starting. */
export interface RefusedRequests {
  readonly finding: string;
  readonly step: string;
  /** `namespace/name` of each. */
  readonly pods: readonly string[];
}

const findings: ReadonlySet<string> = new Set(["UndeclaredRequest", "IgnoredRequest"]);

/** A kubelet tries again within seconds: after this time the pod is gone, or starts. */
const currentMs = 600_000;

/** The pods whose last ADD these rules refused, at a time (ISO 8601), by finding. */
export function refusedRequests(history: CallHistory, now: string): RefusedRequests[] {
  const since = new Date(Date.parse(now) - currentMs).toISOString();
  const refused = new Map<string, RefusedRequests & { readonly pods: string[] }>();
  for (const { pod, failure } of history.failedAdds(since)) {
    const { finding, step } = explainError(failure);
    if (!findings.has(finding)) continue;
    const known = refused.get(finding) ?? { finding, step, pods: [] };
    known.pods.push(pod);
    refused.set(finding, known);
  }
  return [...refused.values()];
}
