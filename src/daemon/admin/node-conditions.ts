import { chainConditions, confCondition } from "#daemon/cni-conf/status.ts";
import { invalidConfiguration } from "#daemon/config/invalid-configuration.ts";
import { failedAddMs } from "#engine/explain/call-history.ts";
import { type Condition, textOf } from "#lib/condition.ts";
import { shortened } from "#lib/one-line.ts";
import { reasonRow } from "#lib/reasons.ts";
import type { NodeCondition, NodeStatus } from "./node-status.ts";

/** What plexusd says of its node. */
export type NodeReport = Omit<NodeStatus, "conditions">;

/** What is found of the node, part by part: pods that run without their networks come first. */
export function nodeConditions(report: NodeReport): NodeCondition[] {
  const { conf, configProblem, sourceProblem, unseenPaths, damagedRecords, setAside } = report;
  const inEffect: Condition = { reason: "ConfigInEffect", message: "in effect" };
  return [
    ...of("running pods", runningPods(report)),
    ...of("plexusd", [plexusd(report)]),
    ...of("configuration", [
      configProblem === undefined ? inEffect : invalidConfiguration(configProblem),
    ]),
    ...of("node configuration", [nodeConfiguration(report)]),
    ...of("plugins after Plexus", conf === undefined ? [] : chainConditions(conf)),
    ...of("pods and definitions", [source(sourceProblem)]),
    ...of(
      "mounts",
      unseenPaths.map((message) => ({ reason: "PathNotMounted", message })),
    ),
    ...of("records", [
      leftovers(report),
      ...damagedRecords.map((message) => damaged("RecordDamaged", message)),
      ...setAside.map((name) => damaged("RecordSetAside", `${name} is what no DEL could read`)),
    ]),
    ...of("Multus", leftByMultus(report)),
    ...of("attaching pods", additions(report)),
    ...of("plexus agent", agent(report)),
  ];
}

function of(check: string, found: readonly Condition[]): NodeCondition[] {
  return found.map((condition) => ({ check, ...condition }));
}

function damaged(reason: "RecordDamaged" | "RecordSetAside", message: string): Condition {
  const step =
    'release by hand what it held, as docs/operations/troubleshooting.md, "Leaked addresses", says';
  const isAside = reason === "RecordSetAside";
  return { reason, message, step: isAside ? `${step}, and remove the file` : step };
}

function plexusd({ version, commit, node, uptimeSeconds, notReady }: NodeReport): Condition {
  const text = `${version} (${commit}) on ${node}, up ${uptimeSeconds} s, `;
  return notReady.length === 0
    ? { reason: "Ready", message: `${text}ready` }
    : { reason: "NotReady", message: `${text}not ready: ${notReady.join("; ")}` };
}

function nodeConfiguration({ conf, dirs }: NodeReport): Condition {
  if (conf === undefined)
    return {
      reason: "ConfNotWritten",
      message: "plexusd does not write it: it was started without",
    };
  const primary = conf.primary === undefined ? "" : `; the default network is ${conf.primary}`;
  const found = confCondition(conf);
  const message = `${conf.state} in ${dirs.cniConfDir}: ${found.message}${primary}`;
  return { ...found, message };
}

function source(problem: string | undefined): Condition {
  if (problem === undefined) return { reason: "SourceReady", message: "can be looked up" };
  const reason = "ApiUnavailable";
  return { reason, message: problem, step: reasonRow(reason).hotPlugStep };
}

function leftovers({ leftovers: count, attachments, node }: NodeReport): Condition {
  const text = `recorded attachments: ${attachments}`;
  if (count === 0)
    return { reason: "NoLeftovers", message: `${text}, none of a sandbox that is gone` };
  const message = `${text}, of sandboxes that are gone: ${count}`;
  const step = `kubectl plexus records --leftovers ${node} names them and the reasons; correct these, and Plexus detaches them`;
  return { reason: "Leftovers", message, step };
}

function leftByMultus({ ofMultus: left }: NodeReport): Condition[] {
  if (left.length === 0) return [];
  const message = `attached sandboxes of pods that are gone: ${left.length} (${named(left)}); if they stay, the container runtime has forgotten them, and they keep their addresses: docs/user/migration.md ("What Multus leaves") says how to detach them`;
  return [{ reason: "LeftByMultus", message }];
}

/** A part of the pods by name, the others by number. */
function runningPods({ podProblems }: NodeReport): Condition[] {
  if (podProblems.length === 0)
    return [{ reason: "PodsAttached", message: "none lacks a network that it asks for" }];
  return [...Map.groupBy(podProblems, ({ reason }) => reason).values()].flatMap((these) => {
    const found: Condition[] = these.slice(0, namedMax).map(({ pod, ...condition }) => {
      const step = `kubectl plexus explain ${pod} says what to do`;
      return { ...condition, message: `${pod}: ${textOf(condition)}`, step, next: undefined };
    });
    const [first] = found;
    if (first === undefined || these.length <= namedMax) return found;
    const message = `${these.length - namedMax} more pods`;
    return [...found, { ...first, message, step: "events of these pods name the networks" }];
  });
}

function additions(report: NodeReport): Condition[] {
  const { node, failedAdds, settings } = report;
  if (failedAdds.length === 0) {
    const strictness = settings.find(({ key }) => key === "strictness")?.value;
    const message = `${withoutFailure(report)} (strictness: ${strictness})`;
    return [{ reason: "NoFailedAdds", message }];
  }
  return failedAdds.map(({ reason, step, network, message: why, pods }) => {
    const where = network === "" ? "" : `network ${network}, `;
    const what = `failed in the last ten minutes: ${pods.length} (${named(pods)})`;
    const message = `${what}: ${where}${reason}: ${shortened(why, 200)}`;
    return { reason, message, step: step?.replace("NODE", node) };
  });
}

/** plexusd forgets the failures when it ends. */
function withoutFailure({ overcomeAdds: pods, uptimeSeconds }: NodeReport): string {
  if (pods.length > 0) {
    return `failed in the last ten minutes, but attached since or gone: ${pods.length} (${named(pods)})`;
  }
  return uptimeSeconds * 1000 < failedAddMs
    ? `no ADD has failed since plexusd started, ${uptimeSeconds} s ago`
    : "no ADD has failed in the last ten minutes";
}

/** Whether the agent, where there is one, runs what the container runtime runs. */
function agent({ agent: answer, dirs }: NodeReport): Condition[] {
  if (answer === undefined) return [];
  if (answer.refused.length === 0) {
    const message = `runs every plugin of ${dirs.binDirs.join(", ")}`;
    return [{ reason: "AgentReady", message }];
  }
  const message = `plugs and detaches nothing with ${named(answer.refused)}, which the container runtime runs: ${answer.why}`;
  return [{ reason: "AgentRefusesPlugins", message }];
}

const namedMax = 5;

function named(names: readonly string[]): string {
  const more = names.length > namedMax ? `, and ${names.length - namedMax} more` : "";
  return `${names.slice(0, namedMax).join(", ")}${more}`;
}
