import type { NodeEvent } from "#kube/events/event-recorder.ts";
import { type Condition, textOf } from "#lib/condition.ts";
import { chainConditions, confCondition, type NodeConfStatus } from "./status.ts";

/** The event of the Node for a change of its CNI configuration; undefined if users need not know. */
export function nodeConfEvent(
  status: NodeConfStatus,
  before: NodeConfStatus,
): NodeEvent | undefined {
  const [found, was] = [confCondition(status), confCondition(before)];
  const isOther = found.reason !== was.reason || found.message !== was.message;
  if (status.state !== "active") {
    // A node waits for its primary CNI when it starts.
    const isUsual = found.reason === "PlexusConfWaiting" && before.state !== "active";
    return isOther && !isUsual ? eventOf(found) : undefined;
  }
  const chain = chainConditions(status).find(({ reason }) => reason === "NextPluginMissing");
  if (chain !== undefined && status.missing && status.chainProblem !== before.chainProblem)
    return eventOf(chain);
  if (before.state !== "active") {
    const message = [status.reason, status.warning ?? []].flat().join("; ");
    return { type: "Normal", reason: found.reason, message };
  }
  if (status.primary === before.primary) return undefined;
  return { type: "Normal", reason: "PrimaryNetworkChanged", message: status.reason };
}

function eventOf(found: Condition): NodeEvent {
  return { type: "Warning", reason: found.reason, message: textOf(found) };
}
