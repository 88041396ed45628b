import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { reasonOf } from "#daemon/cni-conf/status.ts";
import { parseFile } from "#daemon/config/parse.ts";
import { confSteps } from "#engine/explain/advice/advice.ts";
import { failedAddMs } from "#engine/explain/call-history.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";
import { oneLine, shortened } from "#lib/one-line.ts";
import { reasonRow } from "#lib/reasons.ts";
import { type Finding, found } from "./finding.ts";

/** What plexusd's own report says, check by check: pods that run without their networks come first. */
export function reportFindings(report: NodeStatus, expectedConfig?: string): Finding[] {
  return [
    ...runningPods(report),
    plexusd(report),
    configuration(report, expectedConfig),
    nodeConfiguration(report),
    ...chainedPlugins(report),
    source(report),
    ...report.unseenPaths.map((text) => found("PathNotMounted", "mounts", text)),
    leftovers(report),
    ...report.damagedRecords.map((text) =>
      found("RecordDamaged", "records", `${text}: ${damagedStep}`),
    ),
    ...ofMultus(report),
    ...additions(report),
    ...agent(report),
  ];
}

const damagedStep =
  'what it held may have to be released by hand, as docs/operations/troubleshooting.md, "Leaked addresses", says';

function plexusd({ version, commit, node, uptimeSeconds, notReady }: NodeStatus): Finding {
  const text = `${version} (${commit}) on ${node}, up ${uptimeSeconds} s, `;
  return notReady.length === 0
    ? found("Ready", "plexusd", `${text}ready`)
    : found("NotReady", "plexusd", `${text}not ready: ${notReady.join("; ")}`);
}

/** The kubelet brings a changed ConfigMap to the node only later. */
function configuration(report: NodeStatus, expected: string | undefined): Finding {
  const check = "configuration";
  const { configProblem } = report;
  if (configProblem !== undefined) return invalid(configProblem);
  try {
    const keys = expected === undefined ? [] : keysToCome(report, expected);
    if (keys.length === 0) return found("ConfigInEffect", check, "in effect");
    const step =
      "the kubelet brings a changed ConfigMap within two minutes; a key that plexusd reads when it starts needs a restart of the DaemonSet";
    const text = `the ConfigMap plexus-config has other values of ${keys.join(", ")} than kubectl plexus config shows; ${step}`;
    return found("ConfigNotInEffect", check, text);
  } catch (error) {
    return invalid(errorMessage(error));
  }
}

function invalid(configProblem: string): Finding {
  const step =
    "plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config, or the chart's config";
  return found("ConfigInvalid", "configuration", `${oneLine(configProblem)}; ${step}`);
}

/** The operator's keys that have another value in effect. @throws ConfigError */
function keysToCome({ settings, configFile }: NodeStatus, expected: string): string[] {
  const wanted = { ...parseFile(expected, { source: "plexus-config" }).own } as JsonObject;
  const given = settings.filter(({ source }) => source === configFile);
  const inEffect = Object.fromEntries(given.map(({ key, value }) => [key, value]));
  const byFlag = settings.filter(({ source }) => source === "command line");
  const keys = new Set([...Object.keys(wanted), ...Object.keys(inEffect)]);
  for (const { key } of byFlag) keys.delete(key);
  return [...keys].filter((key) => JSON.stringify(wanted[key]) !== JSON.stringify(inEffect[key]));
}

function nodeConfiguration({ conf, dirs }: NodeStatus): Finding {
  const check = "node configuration";
  if (conf === undefined)
    return found("ConfNotWritten", check, "plexusd does not write it: it was started without");
  const primary = conf.primary === undefined ? "" : `; the default network is ${conf.primary}`;
  const text = `${conf.state} in ${dirs.cniConfDir}: ${reasonOf(conf)}${primary}`;
  if (conf.state === "active") return found("ConfActive", check, text);
  const step = confSteps[conf.state];
  return found("ConfInactive", check, step === undefined ? text : `${text}: ${step}`);
}

/** What agents of service meshes append to Plexus's file. */
function chainedPlugins({ conf }: NodeStatus): Finding[] {
  const check = "plugins after Plexus";
  const { chained = [], omitted = [], chainProblem } = conf ?? {};
  const left = omitted.join(", ");
  const problems =
    chainProblem === undefined
      ? []
      : [
          found(
            "ChainProblem",
            check,
            `${chainProblem}; docs/operations/service-meshes.md says what to do`,
          ),
        ];
  if (chained.length > 0) {
    const others =
      left === "" ? "" : `; the default network leaves out ${left}, which its file has too`;
    const text = `the container runtime runs ${chained.join(", ")} once for each pod${others}`;
    return [found("ChainedPlugins", check, text), ...problems];
  }
  if (left === "") return problems;
  const text = `no pod gets ${left}: its agent has removed it from 00-plexus.conflist, but not from ${conf?.primary}; remove it there, or start the agent again`;
  return [found("PluginsLeftOut", check, text), ...problems];
}

function source({ sourceProblem }: NodeStatus): Finding {
  const check = "pods and definitions";
  if (sourceProblem === undefined) return found("SourceReady", check, "can be looked up");
  return found(
    "ApiUnavailable",
    check,
    `${sourceProblem}; ${reasonRow("ApiUnavailable").hotPlugStep}`,
  );
}

function leftovers({ leftovers: count, attachments, node }: NodeStatus): Finding {
  const text = `recorded attachments: ${attachments}`;
  if (count === 0)
    return found("NoLeftovers", "records", `${text}, none of a sandbox that is gone`);
  const step = `kubectl plexus records --leftovers ${node} names them and the reasons; correct these, and Plexus detaches them`;
  return found("Leftovers", "records", `${text}, of sandboxes that are gone: ${count}; ${step}`);
}

function ofMultus({ ofMultus: left }: NodeStatus): Finding[] {
  if (left.length === 0) return [];
  const text = `attached sandboxes of pods that are gone: ${left.length} (${named(left)}); if they stay, the container runtime has forgotten them, and they keep their addresses: docs/user/migration.md ("What Multus leaves") says how to detach them`;
  return [found("LeftByMultus", "Multus", text)];
}

function runningPods({ podProblems }: NodeStatus): Finding[] {
  const check = "running pods";
  if (podProblems.length === 0)
    return [found("PodsAttached", check, "none lacks a network that it asks for")];
  return [...new Set(podProblems.map(({ reason }) => reason))].flatMap((reason) => {
    const these = podProblems.filter((each) => each.reason === reason);
    const texts = these.slice(0, namedMax).map(({ pod, problem }) => {
      return `${pod}: ${problem}; kubectl plexus explain ${pod} says what to do`;
    });
    if (these.length > namedMax) texts.push(`${these.length - namedMax} more pods; ${eventsStep}`);
    return texts.map((text) => found(reason, check, text));
  });
}

const eventsStep =
  "the events FailedAddingInterface, FailedRemovingInterface, InterfaceAddRejected, InterfaceLost, InvalidAnnotation and NotAttached name them";

function additions(report: NodeStatus): Finding[] {
  const check = "attaching pods";
  const { node, failedAdds, settings } = report;
  if (failedAdds.length === 0) {
    const rules = settings
      .filter(({ key }) => key === "undeclaredRequests" || key === "ignoredRequests")
      .map(({ key, value }) => `${key}: ${value}`);
    return [found("NoFailedAdds", check, `${withoutFailure(report)} (${rules.join(", ")})`)];
  }
  return failedAdds.map(({ finding: reason, verdict, step, network, message, pods }) => {
    const where = network === "" ? "" : `network ${network}, `;
    const text = `failed in the last ten minutes: ${pods.length} (${named(pods)}): ${where}${reason}: ${shortened(message, 200)}; ${step.replace("NODE", node)}`;
    return { check, reason, verdict, text };
  });
}

/** plexusd forgets the failures when it ends. */
function withoutFailure({ overcomeAdds: pods, uptimeSeconds }: NodeStatus): string {
  if (pods.length > 0) {
    return `failed in the last ten minutes, but attached since or gone: ${pods.length} (${named(pods)})`;
  }
  return uptimeSeconds * 1000 < failedAddMs
    ? `no ADD has failed since plexusd started, ${uptimeSeconds} s ago`
    : "no ADD has failed in the last ten minutes";
}

/** Whether the agent, where there is one, runs what the container runtime runs. */
function agent({ agent: answer, dirs }: NodeStatus): Finding[] {
  const check = "plexus agent";
  if (answer === undefined) return [];
  if (answer.refused.length === 0) {
    return [found("AgentReady", check, `runs every plugin of ${dirs.binDirs.join(", ")}`)];
  }
  const text = `plugs and detaches nothing with ${named(answer.refused)}, which the container runtime runs: ${answer.why}`;
  return [found("AgentRefusesPlugins", check, text)];
}

const namedMax = 5;

function named(names: readonly string[]): string {
  const more = names.length > namedMax ? `, and ${names.length - namedMax} more` : "";
  return `${names.slice(0, namedMax).join(", ")}${more}`;
}
