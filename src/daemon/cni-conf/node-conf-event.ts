import type { EventText } from "#engine/ports/cluster.ts";
import { eventOf } from "#lib/condition.ts";
import { chainConditions, confCondition, type NodeConfStatus } from "./status.ts";

/** The event of the Node for a change of its CNI configuration; undefined if users need not know. */
export function nodeConfEvent(
  status: NodeConfStatus,
  before: NodeConfStatus,
): EventText | undefined {
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
    return { reason: found.reason, message };
  }
  if (status.primary === before.primary) return undefined;
  return { reason: "PrimaryNetworkChanged", message: status.reason };
}
