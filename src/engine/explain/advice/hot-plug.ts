import type { ExplainedProblem } from "#engine/explain/explanation.ts";
import { switchOn } from "#engine/hotplug/reports/conditions.ts";
import type { Condition } from "#lib/condition.ts";
import type { FindingReason } from "#lib/reasons.ts";
import { type Facts, isRunning } from "./facts.ts";
import { couldNot } from "./sentence.ts";

/* Rules about networks of running pods. */

/** What the last attempt of hot-plug could not do, or what the next one is to do. */
export function notPlugged(facts: Facts): Condition | undefined {
  const { networks, hotPlug: { state, problems = [] } = {} } = facts;
  if (!isRunning(facts)) return undefined;
  const next = nextAttempt(facts);
  const changes = networks.filter(({ pending }) => pending !== undefined);
  const changeOf = ({ network }: ExplainedProblem) =>
    changes.find((each) => each.network === network);
  const problem = problems.find(({ network }) => network === undefined) ?? problems.find(changeOf);
  if (problem !== undefined && (changes.length > 0 || state !== "busy")) {
    const change = changeOf(problem)?.pending;
    const what = change === undefined ? "change the networks of" : change;
    return couldNot(`Could not ${what}`, { ...problem, node: facts.node.name }, next);
  }
  const [first] = changes;
  if (first === undefined) return undefined;
  const { network, ifName, pending } = first;
  const name = ifName === undefined ? network : `${network} (${ifName})`;
  return { reason: "HotPlugPending", message: `Network ${name} is not ${pending}ged yet`, next };
}

function nextAttempt({ hotPlug, isHotPluggable }: Facts): string | undefined {
  if (!isHotPluggable) return switchOn;
  const { nextMs, at } = hotPlug ?? {};
  if (at === undefined) return "plexusd has not compared the pod with its annotation yet";
  if (nextMs === undefined) return undefined;
  return nextMs <= 0
    ? "plexusd is trying again now"
    : `plexusd tries again in ${Math.ceil(nextMs / 1000)} s`;
}

/** What the inspection of the running pod, or hot-plug, has found beside that. */
export function stated(facts: Facts): Condition | undefined {
  const found = facts.stated.filter(({ reason }) => shown.has(reason));
  const [first] = isRunning(facts) ? found : [];
  return first && { ...first, message: found.map(({ message }) => message).join("; ") };
}

const shown: ReadonlySet<FindingReason> = new Set(["InterfaceLost", "NotManaged"]);
