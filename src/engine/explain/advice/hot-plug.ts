import { notManaged } from "#engine/hotplug/reports/conditions.ts";
import type { Condition } from "#lib/condition.ts";
import { type Facts, isRunning } from "./facts.ts";
import { couldNot } from "./sentence.ts";

/* Rules about networks of running pods. */

/** What the last attempt of hot-plug could not do, or what the next one is to do. */
export function notPlugged(facts: Facts): Condition | undefined {
  const { networks, hotPlug: { state, problems = [] } = {} } = facts;
  if (!isRunning(facts)) return undefined;
  const next = nextAttempt(facts);
  const changes = networks.flatMap(({ network, ifName, pending }) => {
    if (pending === undefined || pending.change === "unmanaged") return [];
    return { ...pending, name: ifName === undefined ? network : `${network} (${ifName})` };
  });
  const general = problems.find(({ network }) => network === undefined);
  if (general !== undefined && (changes.length > 0 || state !== "busy")) {
    return couldNot("Could not change the networks of", { ...general, retriedBy: "plexusd" }, next);
  }
  const failed = changes.find(({ failure }) => failure !== undefined) ?? changes[0];
  if (failed === undefined) return undefined;
  const { change, name, failure } = failed;
  if (failure === undefined) {
    const done = change === "plug" ? "plugged" : "unplugged";
    return { reason: "HotPlugPending", message: `Network ${name} is not ${done} yet`, next };
  }
  const shown = { subject: name, ...failure, node: facts.node.name, retriedBy: "plexusd" } as const;
  return couldNot(`Could not ${change}`, shown, next);
}

function nextAttempt({ hotPlug }: Facts): string | undefined {
  const { nextMs, at } = hotPlug ?? {};
  if (at === undefined) return "plexusd has not compared the pod with its annotation yet";
  if (nextMs === undefined) return undefined;
  return nextMs <= 0
    ? "plexusd is trying again now"
    : `plexusd tries again in ${Math.ceil(nextMs / 1000)} s`;
}

export function interfaceLost(facts: Facts): Condition | undefined {
  const lost = facts.stated.filter(({ reason }) => reason === "InterfaceLost");
  const [first] = isRunning(facts) ? lost : [];
  return first && { ...first, message: lost.map(({ message }) => message).join("; ") };
}

export function attachedUnknown({ networks, isHotPluggable }: Facts): Condition | undefined {
  const unmanaged = networks.filter(({ pending }) => pending?.change === "unmanaged");
  if (!isHotPluggable || unmanaged.length === 0) return undefined;
  return notManaged(
    unmanaged.map(({ network, ifName = "" }) => ({ displayName: network, ifName })),
  );
}
