import { chainConditions, confCondition } from "#daemon/cni-conf/status.ts";
import { invalidConfiguration } from "#daemon/config/invalid-configuration.ts";
import { lostCondition } from "#kube/kept-definitions.ts";
import { type Condition, found, textOf } from "#lib/condition.ts";
import { shortened } from "#lib/one-line.ts";
import { reasonRow } from "#lib/reasons.ts";
import type { NodeCondition, NodeStatus } from "./node-status.ts";

/** What plexusd says of its node. */
export type NodeReport = Omit<NodeStatus, "conditions">;

/** What is found of the node, part by part: pods that run without their networks come first. */
export function nodeConditions(report: NodeReport): NodeCondition[] {
  const { conf, configProblem, configWarnings, sourceProblem, unseenPaths } = report;
  const parts: Readonly<Record<string, readonly Condition[]>> = {
    "running pods": runningPods(report),
    plexusd: [plexusd(report)],
    configuration: [
      configProblem === undefined
        ? found("ConfigInEffect", "in effect")
        : invalidConfiguration(configProblem),
      ...configWarnings.map((text) => found("FormerKey", text)),
    ],
    "node configuration": [nodeConfiguration(report)],
    "plugins after Plexus": conf === undefined ? [] : chainConditions(conf),
    "auxiliary CNI chain": report.auxiliaryProblems.map((text) =>
      found("PluginsLeftOut", text, "new pods start without it; correct or remove that file"),
    ),
    "pods and definitions": [
      sourceProblem === undefined
        ? found("SourceReady", "can be looked up")
        : found("ApiUnavailable", sourceProblem, reasonRow("ApiUnavailable").step),
    ],
    definitions: definitions(report),
    mounts: unseenPaths.map((text) => found("PathNotMounted", text)),
    records: records(report),
    Multus: leftByMultus(report),
    "attaching pods": additions(report),
    "plexus agent": agent(report),
  };
  return Object.entries(parts).flatMap(([check, all]) => all.map((each) => ({ check, ...each })));
}

function plexusd({ version, commit, node, uptimeSeconds, notReady }: NodeReport): Condition {
  const text = `${version} (${commit}) on ${node}, up ${uptimeSeconds} s, `;
  return notReady.length === 0
    ? found("Ready", `${text}ready`)
    : found("NotReady", `${text}not ready: ${notReady.join("; ")}`);
}

function nodeConfiguration({ conf, dirs }: NodeReport): Condition {
  if (conf === undefined)
    return found("ConfNotWritten", "plexusd does not write it: it was started without");
  const primary = conf.primary === undefined ? "" : `; the default network is ${conf.primary}`;
  const condition = confCondition(conf);
  const message = `${conf.state} in ${dirs.cniConfDir}: ${condition.message}${primary}`;
  return { ...condition, message };
}

function definitions({ definitionsServed, lostDefinitions: lost }: NodeReport): Condition[] {
  if (lost.length > 0) return [lostCondition(lost)];
  if (definitionsServed !== false) return [];
  const text = "the API server knows no NetworkAttachmentDefinitions: pods only get those kept";
  return [found("CrdMissing", text, "apply their CRD: kubectl apply -f crds/")];
}

const byHand =
  'release by hand what it held, as docs/operations/troubleshooting.md, "Leaked addresses", says';

function records(report: NodeReport): Condition[] {
  const { leftovers: count, attachments, node, damagedRecords, setAside } = report;
  const text = `recorded attachments: ${attachments}`;
  const step = `kubectl plexus records --leftovers ${node} names them and the reasons; correct these, and Plexus detaches them`;
  return [
    count === 0
      ? found("NoLeftovers", `${text}, none of a sandbox that is gone`)
      : found("Leftovers", `${text}, of sandboxes that are gone: ${count}`, step),
    ...damagedRecords.map((each) => found("RecordDamaged", each, byHand)),
    ...setAside.map((file) =>
      found("RecordSetAside", `${file} is what no DEL could read`, `${byHand}; then remove it`),
    ),
  ];
}

function leftByMultus({ ofMultus: { gone, damaged } }: NodeReport): Condition[] {
  const unusable = damaged.map((text) =>
    found("LeftByMultus", text, `when the pod has ended, ${byHand}; then remove it`),
  );
  if (gone.length === 0) return unusable;
  const text = `attached sandboxes of pods that are gone: ${gone.length} (${named(gone)}); if they stay, the container runtime has forgotten them, and they keep their addresses: docs/user/migration.md ("What Multus leaves") says how to detach them`;
  return [found("LeftByMultus", text), ...unusable];
}

/** A part of the pods by name, the others by number. */
function runningPods({ podProblems }: NodeReport): Condition[] {
  if (podProblems.length === 0)
    return [found("PodsAttached", "none lacks a network that it asked for when it started")];
  return [...Map.groupBy(podProblems, ({ reason }) => reason).values()].flatMap((these) => {
    const shown: Condition[] = these.slice(0, namedMax).map(({ pod, ...condition }) => {
      const step = `kubectl plexus explain ${pod} says what to do`;
      return { ...condition, message: `${pod}: ${textOf(condition)}`, step, next: undefined };
    });
    const [first] = shown;
    if (first === undefined || these.length <= namedMax) return shown;
    const message = `${these.length - namedMax} more pods`;
    return [...shown, { ...first, message, step: "events of these pods name the networks" }];
  });
}

function additions(report: NodeReport): Condition[] {
  const { node, failedAdds, settings } = report;
  if (failedAdds.length === 0) {
    const strictness = settings.find(({ key }) => key === "strictness")?.value;
    const text = "no pod lacks its networks after an ADD that failed in the last ten minutes";
    return [found("NoFailedAdds", `${text} (strictness: ${strictness})`)];
  }
  return failedAdds.map(({ reason, step, network, message, pods }) => {
    const where = network === "" ? "" : `network ${network}, `;
    const what = `failed in the last ten minutes: ${pods.length} (${named(pods)})`;
    const text = `${what}: ${where}${reason}: ${shortened(message, 200)}`;
    return found(reason, text, step?.replace("NODE", node));
  });
}

/** Whether the agent, where there is one, runs what the container runtime runs. */
function agent({ agent: answer, dirs }: NodeReport): Condition[] {
  if (answer === undefined) return [];
  if (answer.refused.length === 0)
    return [found("AgentReady", `runs every plugin of ${dirs.binDirs.join(", ")}`)];
  const text = `plugs and detaches nothing with ${named(answer.refused)}, which the container runtime runs: ${answer.why}`;
  return [found("AgentRefusesPlugins", text)];
}

const namedMax = 5;

function named(names: readonly string[]): string {
  const more = names.length > namedMax ? `, and ${names.length - namedMax} more` : "";
  return `${names.slice(0, namedMax).join(", ")}${more}`;
}
