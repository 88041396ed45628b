import { isDeepStrictEqual } from "node:util";
import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { type Json, objectOf, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The prefix of plexusd's labels and extended resources. No other process writes them. */
const prefix = "networks.plexus.dev/";
const conditionType = "NetworksReady";
const timeoutMs = 10_000;

/** What a Node says of its networks. */
export interface NodeMarks {
  readonly labels: Readonly<Record<string, string>>;
  /** The extended resources, with their capacity. */
  readonly capacity: Readonly<Record<string, string>>;
  readonly condition?: Readonly<Record<"status" | "reason" | "message", string>>;
}

/** Reads the marks of this node's Node, from the API server's cache. @throws ApiError */
export async function readMarks(client: ApiClient, nodeName: string): Promise<NodeMarks> {
  const query = { resourceVersion: "0" };
  const node = await client.json({ path: apiPaths.node(nodeName), query, timeoutMs });
  const { capacity, conditions } = objectOf(node.status);
  const condition = objectsOf(conditions).find(({ type }) => type === conditionType);
  const { status, reason, message } = condition ?? {};
  return omitUndefined({
    labels: ownOf(objectOf(node.metadata).labels),
    capacity: ownOf(capacity),
    condition: condition && { status: `${status}`, reason: `${reason}`, message: `${message}` },
  });
}

/**
 * Changes the marks, with one request: the API server takes labels with the status, as kubelets use
 * it. Sends nothing if there is nothing to change. @throws ApiError
 */
export async function writeMarks(
  client: ApiClient,
  nodeName: string,
  { before, after }: { readonly before: NodeMarks; readonly after: NodeMarks },
): Promise<void> {
  const labels = changes(before.labels, after.labels);
  const capacity = changes(before.capacity, after.capacity);
  const condition = conditionChange(before.condition, after.condition);
  if (!(labels || capacity || condition)) return;
  const conditions = condition && [{ type: conditionType, ...condition }];
  await client.write({
    method: "PATCH",
    path: `${apiPaths.node(nodeName)}/status`,
    query: { fieldManager: "plexus" },
    contentType: "application/strategic-merge-patch+json",
    body: omitUndefined({
      metadata: labels && { labels },
      // The kubelet would derive what can be allocated from the capacity, but only seconds later.
      status:
        (capacity || conditions) && omitUndefined({ capacity, allocatable: capacity, conditions }),
    }),
    timeoutMs,
  });
}

function ownOf(values: Json | undefined): Record<string, string> {
  const own = Object.entries(objectOf(values)).filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(own.map(([key, value]) => [key, `${value}`]));
}

/** What is new or different, and null for what is gone; undefined if nothing is. */
function changes(before: NodeMarks["labels"], after: NodeMarks["labels"]) {
  const gone = Object.keys(before).filter((key) => !(key in after));
  const changed = Object.entries(after).filter(([key, value]) => before[key] !== value);
  if (gone.length + changed.length === 0) return undefined;
  return { ...Object.fromEntries(gone.map((key) => [key, null])), ...Object.fromEntries(changed) };
}

function conditionChange(before: NodeMarks["condition"], after: NodeMarks["condition"]) {
  if (isDeepStrictEqual(before, after)) return undefined;
  if (after === undefined) return { $patch: "delete" };
  const isTransition = before?.status !== after.status;
  return { ...after, ...(isTransition && { lastTransitionTime: new Date().toISOString() }) };
}
