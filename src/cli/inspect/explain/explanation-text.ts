import { columns } from "#cli/output-format.ts";
import { withoutSubject } from "#cni/error.ts";
import type { Failure } from "#engine/explain/explain-error.ts";
import type {
  ExplainedHotPlug,
  ExplainedNetwork,
  ExplainedProblem,
  Explanation,
} from "#engine/explain/explanation.ts";
import { shortened } from "#lib/one-line.ts";
import { ignoredWords } from "#npwg/served-requests.ts";

/** An explanation for people: the sentence first, then what it is concluded from. */
export function explanationText(explanation: Explanation): string[] {
  const { advice, pod, node, annotation, record, calls, networks, problems, hotPlug } = explanation;
  // Without an answer of the API server, it is not known that there is none.
  const shown = annotation ?? (pod.uid === undefined ? undefined : "none");
  const facts: [name: string, value: string | undefined][] = [
    ["pod", podText(pod)],
    ["node", nodeText(node)],
    ["annotation", shown && shortened(shown.replaceAll("\n", " "), 200)],
    ...problems.filter(isGeneral).map(({ message }): [string, string] => ["problem", message]),
    ["record", record && `since ${record.createdAt}, container ${record.containerId.slice(0, 12)}`],
    ["hot-plug", hotPlug && hotPlugText(hotPlug)],
    ["status", explanation.published && `lists ${explanation.published.join(", ")}`],
    ...calls.map(({ command, at, code, message }): [string, string] => {
      const outcome = message === undefined ? "done" : `code ${code}: ${message}`;
      return [`last ${command}`, `${at} ${outcome}`];
    }),
  ];
  const rows = facts.flatMap(([name, value]) => (value === undefined ? [] : [[`${name}:`, value]]));
  return [
    advice.sentence,
    "",
    ...columns(rows),
    ...(networks.length === 0
      ? []
      : ["", ...networkTable(networks, [...(hotPlug?.problems ?? []), ...problems])]),
  ];
}

function podText(pod: Explanation["pod"]): string {
  const { namespace, name, phase = "", hostNetwork, isTerminating } = pod;
  const words = [phase, hostNetwork && "hostNetwork", isTerminating && "terminating"];
  const known = words.filter(Boolean).join(", ");
  return `${namespace}/${name}${known === "" ? "" : ` (${known})`}`;
}

function nodeText({ name, conf }: Explanation["node"]): string {
  return conf === undefined ? name : `${name}: ${conf.message}`;
}

function hotPlugText({ at, state, problems }: ExplainedHotPlug): string {
  const [general] = problems.filter(isGeneral);
  const words = state === "settled" && general !== undefined ? "waits for an edit" : ends[state];
  return general === undefined ? `${at} ${words}` : `${at} ${words}: ${general.message}`;
}

/** How the last attempt ended; the table has what it says of networks. */
const ends: Readonly<Record<ExplainedHotPlug["state"], string>> = {
  settled: "done",
  waiting: "waits for a change of the pod",
  busy: "busy",
  failed: "failed",
};

function isGeneral({ network }: ExplainedProblem): boolean {
  return network === undefined;
}

function networkTable(
  networks: readonly ExplainedNetwork[],
  problems: readonly ExplainedProblem[],
): string[] {
  const stateOf = (each: ExplainedNetwork): string => {
    const problem = problems.find(({ network }) => network === each.network);
    const found = problem && reasonOf(problem);
    if (each.ifName === undefined)
      return found ?? (each.pending === undefined ? "not attached" : "not plugged yet");
    return found === undefined ? stateText(each) : `${stateText(each)}; ${found}`;
  };
  const shown: readonly (readonly [head: string, cell: (network: ExplainedNetwork) => string])[] = [
    ["NETWORK", ({ network }) => network],
    ["INTERFACE", ({ ifName }) => ifName ?? ""],
    ["ADDRESSES", ({ addresses = [] }) => addresses.join(" ")],
    ["DEVICE", ({ device }) => device ?? ""],
    ["PLUGINS", ({ plugins = [] }) => plugins.join(" ")],
    ["ASKED FOR", askedFor],
    ["STATE", stateOf],
  ];
  const used = shown.filter(([head, cell]) => !optional.has(head) || networks.some(cell));
  const rows = networks.map((network) => used.map(([, cell]) => cell(network) || "-"));
  return columns([used.map(([head]) => head), ...rows]);
}

/** Columns that are left out if no network has a value. */
const optional: ReadonlySet<string> = new Set(["DEVICE", "ASKED FOR"]);

/** What plugins are asked for by capability, and in CNI_ARGS. */
function askedFor({ runtimeConfig = {}, cniArgs = [] }: ExplainedNetwork): string {
  const capabilities = Object.entries(runtimeConfig).map(([key, value]) => {
    const isText = [value].flat().every((each) => typeof each === "string");
    return `${key}=${isText ? String(value) : JSON.stringify(value)}`;
  });
  const args = cniArgs.map(([key, value]) => `${key}=${value}`);
  return [...capabilities, ...(args.length > 0 ? [`CNI_ARGS=${args.join(";")}`] : [])].join(" ");
}

/** The table names the network. */
function reasonOf({ message, subject = "" }: Failure): string {
  return withoutSubject(message, subject);
}

function stateText({
  attachedBy,
  isOutdated,
  isUnrequested,
  pending,
  ignored = [],
}: ExplainedNetwork): string {
  if (attachedBy !== undefined) return `attached by ${attachedBy}`;
  if (pending !== undefined) return "to be unplugged";
  if (isOutdated === true) return "attached before its definition changed";
  if (isUnrequested === true) return "attached, not requested any more";
  return ignored.length === 0 ? "attached" : `attached, ${ignoredWords(ignored)}`;
}
