import { markdownTable } from "../support/markdown.ts";
import type { Sum } from "./api-server.ts";

/** What Plexus or Multus added to the API server's metrics. */
export type Measured = { readonly name: string } & Readonly<
  Record<"nodes" | "pods" | "events", number> & Record<"started" | "attached" | "changed", Sum>
>;

/** Of one definition. */
export const changes = 10;

export const names = {
  requests: "apiserver_request_total",
  openWatches: "apiserver_longrunning_requests",
  definitions: 'resource="network-attachment-definitions"',
  pods: 'resource="pods"',
  list: 'verb="LIST"',
} as const;

const [get, daemonSets] = ['verb="GET"', 'resource="daemonsets"'];
const accounts = 'resource="serviceaccounts"';
const [sent, answered] = ["apiserver_watch_events_sizes_sum", "apiserver_response_sizes_sum"];
const written = "apiserver_request_body_size_bytes_sum";
const streamed = "apiserver_watch_list_duration_seconds_count";

/** The limits are of Plexus. */
function costsOf(measured: Measured): [what: string, cost: number, limit: number][] {
  const { started, attached, changed, ...of } = measured;
  const { requests, openWatches, definitions, pods, list } = names;
  const node = (...added: number[]): number => added.reduce((a, b) => a + b) / of.nodes;
  const pod = (...added: number[]): number => added.reduce((a, b) => a + b) / of.pods;
  const all = (metric: string, ...labels: readonly string[]): number =>
    [definitions, pods, accounts].reduce((sum, of) => sum + started(metric, of, ...labels), 0);
  const lines = changed("apiserver_watch_events_total", definitions);
  // A controller may begin to watch the metadata of all 1,000 definitions meanwhile.
  const others = 1000 / of.nodes / changes;
  return [
    ["a node starts: lists", node(all(requests, list), all(streamed)), 3.1],
    ["… KB", node(all(answered, list), all(sent)) / 1000, 140],
    ["… GETs", node(started(requests, pods, get), started(requests, daemonSets, get)), 2.1],
    ["… watches that stay open", node(all(openWatches)), 3.1],
    ["a pod is attached: GETs", pod(attached(requests, pods, get)), 0],
    ["… writes of its status", pod(attached(requests, pods, 'subresource="status"')), 1.05],
    ["… KB of both", pod(attached(written, pods), attached(answered, pods, get)) / 1000, 0.25],
    ["… events", pod(of.events), 1.05],
    ["a definition changes: lines on watches", node(lines / changes), 1.1 + others],
    ["… KB", node(changed(sent, definitions)) / changes / 1000, 2 + others / 2],
  ];
}

/** What costs more than it may. */
export function aboveLimits(plexus: Measured): string {
  const above = costsOf(plexus).filter(([, cost, limit]) => cost > limit);
  return above.map((each) => each.join(" ")).join("; ");
}

/** The table of docs/operations/large-clusters.md. */
export function costTable(all: readonly Measured[]): string {
  const columns = all.map(costsOf);
  const value = (cost = 0): string => Number(cost.toFixed(2)).toLocaleString("en");
  const row = (n: number): string[] => columns.map((each) => value(each[n]?.[1]));
  const rows = columns[0]?.map(([what], n) => [what, ...row(n)]) ?? [];
  return markdownTable(["for each node or pod", ...all.map(({ name }) => name)], rows);
}
