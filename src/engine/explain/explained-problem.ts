import type { HotPlugProblem } from "#engine/hotplug/reports/problem-texts.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { ExplainedProblem } from "./explanation.ts";

/** A problem of the plan of an ADD or of hot-plug, as explanations have it. */
export function explainedProblem(problem: HotPlugProblem): ExplainedProblem {
  const { error, network, ifName, isTolerated } = problem;
  const name = ifName === undefined ? network : `${network} (${ifName})`;
  const { reason, code, text: message } = error;
  const subject = error.subject === network ? name : (error.subject ?? name);
  return omitUndefined({ network, subject, isTolerated, reason, code, message });
}
