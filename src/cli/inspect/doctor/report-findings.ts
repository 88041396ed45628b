import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { reasonOf } from "#daemon/cni-conf/status.ts";
import { failedAddMs } from "#engine/explain/call-history.ts";
import { oneLine, shortened } from "#lib/one-line.ts";
import { reasonRow } from "#lib/reasons.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** What plexusd's own report says, check by check. */
export function reportFindings(report: NodeStatus): Finding[] {
  return [
    plexusd(report),
    configuration(report),
    nodeConfiguration(report),
    ...chainedPlugins(report),
    source(report),
    ...report.unseenPaths.map((text) => problem("mounts", text)),
    leftovers(report),
    ...report.damagedRecords.map((text) => problem("records", `${text}: ${damagedStep}`)),
    ...ofMultus(report),
    ...runningPods(report),
    ...additions(report),
    ...agent(report),
  ];
}

const damagedStep =
  'what it held may have to be released by hand, as docs/operations/troubleshooting.md, "Leaked addresses", says';

function plexusd({ version, commit, node, uptimeSeconds, notReady }: NodeStatus): Finding {
  const text = `${version} (${commit}) on ${node}, up ${uptimeSeconds} s, `;
  return notReady.length === 0
    ? ok("plexusd", `${text}ready`)
    : problem("plexusd", `${text}not ready: ${notReady.join("; ")}`);
}

function configuration({ configProblem }: NodeStatus): Finding {
  const check = "configuration";
  if (configProblem === undefined) return ok(check, "in effect");
  const step =
    "plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config";
  return problem(check, `${oneLine(configProblem)}; ${step}`);
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
    return warning(check, "plexusd does not write it: it was started without");
  const primary = conf.primary === undefined ? "" : `; the default network is ${conf.primary}`;
  const text = `${conf.state} in ${dirs.cniConfDir}: ${reasonOf(conf)}${primary}`;
  if (conf.state === "active") return ok(check, text);
  return problem(check, `${text}${steps[conf.state] ?? ""}`);
}

/** What agents of service meshes append to Plexus's file. */
function chainedPlugins({ conf }: NodeStatus): Finding[] {
  const check = "plugins after Plexus";
  const { chained = [], omitted = [], chainProblem } = conf ?? {};
  const left = omitted.join(", ");
  const problems =
    chainProblem === undefined
      ? []
      : [problem(check, `${chainProblem}; docs/operations/service-meshes.md says what to do`)];
  if (chained.length > 0) {
    const others =
      left === "" ? "" : `; the default network leaves out ${left}, which its file has too`;
    const text = `the container runtime runs ${chained.join(", ")} once for each pod${others}`;
    return [ok(check, text), ...problems];
  }
  if (left === "") return problems;
  const text = `no pod gets ${left}: its agent has removed it from 00-plexus.conflist, but not from ${conf?.primary}; remove it there, or start the agent again`;
  return [warning(check, text), ...problems];
}

function source({ sourceProblem }: NodeStatus): Finding {
  const check = "pods and definitions";
  if (sourceProblem === undefined) return ok(check, "can be looked up");
  return problem(check, `${sourceProblem}; ${reasonRow("ApiUnavailable").hotPlugStep}`);
}

function leftovers({ leftovers: count, attachments, node }: NodeStatus): Finding {
  const text = `recorded attachments: ${attachments}`;
  if (count === 0) return ok("records", `${text}, none of a sandbox that is gone`);
  const step = `kubectl plexus records --leftovers ${node} names them and the reasons; correct these, and Plexus detaches them`;
  return warning("records", `${text}, of sandboxes that are gone: ${count}; ${step}`);
}

function ofMultus({ ofMultus: left }: NodeStatus): Finding[] {
  if (left.length === 0) return [];
  const text = `attached sandboxes of pods that are gone: ${left.length} (${named(left)}); if they stay, the container runtime has forgotten them, and they keep their addresses: docs/user/migration.md ("What Multus leaves") says how to detach them`;
  return [warning("Multus", text)];
}

function runningPods({ unattachedPods: unattached, podProblems }: NodeStatus): Finding[] {
  const check = "running pods";
  if (unattached.length + podProblems.length === 0) {
    return [ok(check, "none lacks a network that it asks for")];
  }
  const texts = podProblems
    .slice(0, namedMax)
    .map(({ pod, problem }) => `${pod}: ${problem}; kubectl plexus explain ${pod} says what to do`);
  if (podProblems.length > namedMax)
    texts.push(
      `with other networks than requested: ${podProblems.length - namedMax} more pods; the events FailedAddingInterface, FailedRemovingInterface, InterfaceAddRejected, InterfaceLost and InvalidAnnotation name them`,
    );
  if (unattached.length > 0)
    texts.push(
      `without networks that they ask for: ${unattached.length} (${named(unattached)}), because they started when the container runtime did not call Plexus; delete them, so that their replacements are attached`,
    );
  return texts.map((text) => warning(check, text));
}

function additions(report: NodeStatus): Finding[] {
  const check = "attaching pods";
  const { node, failedAdds, requestRules } = report;
  if (failedAdds.length === 0) {
    const rules = Object.entries(requestRules).map(([key, value]) => `${key}: ${value}`);
    return [ok(check, `${withoutFailure(report)} (${rules.join(", ")})`)];
  }
  return failedAdds.map(({ finding, step, network, message, pods }) => {
    const where = network === "" ? "" : `network ${network}, `;
    const text = `failed in the last ten minutes: ${pods.length} (${named(pods)}): ${where}${finding}: ${shortened(message, 200)}; ${step.replace("NODE", node)}`;
    return problem(check, text);
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
function agent({ agent: found, dirs }: NodeStatus): Finding[] {
  const check = "plexus agent";
  if (found === undefined) return [];
  if (found.refused.length === 0) {
    return [ok(check, `runs every plugin of ${dirs.binDirs.join(", ")}`)];
  }
  const text = `plugs and detaches nothing with ${named(found.refused)}, which the container runtime runs: ${found.why}`;
  return [warning(check, text)];
}

const namedMax = 5;

function named(names: readonly string[]): string {
  const more = names.length > namedMax ? `, and ${names.length - namedMax} more` : "";
  return `${names.slice(0, namedMax).join(", ")}${more}`;
}
