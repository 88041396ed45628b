import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { reasonOf } from "#daemon/cni-conf/status.ts";
import { failedAddMs } from "#engine/explain/call-history.ts";
import { oneLine, shortened } from "#lib/one-line.ts";
import { reasonRow } from "#lib/reasons.ts";
import { type Finding, found } from "./finding.ts";

/** What plexusd's own report says, check by check: pods that run without their networks come first. */
export function reportFindings(report: NodeStatus): Finding[] {
  return [
    ...runningPods(report),
    plexusd(report),
    configuration(report),
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

function configuration({ configProblem }: NodeStatus): Finding {
  const check = "configuration";
  if (configProblem === undefined) return found("ConfigInEffect", check, "in effect");
  const step =
    "plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config, or the chart's config";
  return found("ConfigInvalid", check, `${oneLine(configProblem)}; ${step}`);
}

const steps: Readonly<Record<string, string>> = {
  shadowed:
    ": remove that file, or give it a name that sorts after 00-plexus.conflist; if it is also the default network, new pods then wait up to a minute until plexusd takes the next file",
  missing: ": find out what removes the file",
  "foreign-rename": ": find out what renames the file, most likely another meta-plugin",
};

function nodeConfiguration({ conf, dirs }: NodeStatus): Finding {
  const check = "node configuration";
  if (conf === undefined)
    return found("ConfNotWritten", check, "plexusd does not write it: it was started without");
  const primary = conf.primary === undefined ? "" : `; the default network is ${conf.primary}`;
  const text = `${conf.state} in ${dirs.cniConfDir}: ${reasonOf(conf)}${primary}`;
  if (conf.state === "active") return found("ConfActive", check, text);
  return found("ConfInactive", check, `${text}${steps[conf.state] ?? ""}`);
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
  const { node, failedAdds, requestRules } = report;
  if (failedAdds.length === 0) {
    const rules = Object.entries(requestRules).map(([key, value]) => `${key}: ${value}`);
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
