import type { NodeEvent } from "#kube/events/event-recorder.ts";
import { reasonRow } from "#lib/reasons.ts";
import { type NodeConfState, type NodeConfStatus, reasonOf } from "./status.ts";

const displacedReasons: Partial<Record<NodeConfState, NodeEvent["reason"]>> = {
  shadowed: "PlexusConfShadowed",
  missing: "PlexusConfMissing",
  "foreign-rename": "PlexusConfForeignRename",
};

/** The event of the Node for a change of its CNI configuration; undefined if users need not know. */
export function nodeConfEvent(
  status: NodeConfStatus,
  before: NodeConfStatus,
): NodeEvent | undefined {
  const reason = displacedReasons[status.state];
  if (reason !== undefined) return { type: "Warning", reason, message: status.reason };
  if (status.lost !== undefined && status.lost !== before.lost) {
    const waits = status.next === undefined ? "; plexusd waits for it" : "";
    const message = `new pods on this node fail: ${reasonOf(status)}${waits}; restore the file, or check the primary CNI's agent`;
    return { type: "Warning", reason: "PrimaryConfMissing", message };
  }
  if (status.state === "waiting" && before.state === "active") {
    const message = `new pods on this node fail or wait: ${status.reason}`;
    return { type: "Warning", reason: "PlexusConfWaiting", message };
  }
  if (status.state !== "active") return undefined;
  if (status.missing !== undefined && status.chainProblem !== before.chainProblem) {
    const reason = "NextPluginMissing";
    const message = `${status.chainProblem}; ${reasonRow(reason).step}`;
    return { type: "Warning", reason, message };
  }
  if (before.state !== "active") {
    const message = [status.reason, status.warning ?? []].flat().join("; ");
    return { type: "Normal", reason: "PlexusConfActive", message };
  }
  if (status.primary === before.primary) return undefined;
  return { type: "Normal", reason: "PrimaryNetworkChanged", message: status.reason };
}
