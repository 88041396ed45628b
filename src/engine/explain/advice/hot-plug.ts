import type { Advice } from "#engine/explain/explanation.ts";
import { unknownText } from "#engine/hotplug/reports/problem-texts.ts";
import { at, type Facts, isRunning } from "./facts.ts";
import { capitalized, couldNot, problem } from "./sentence.ts";

/* Rules about networks of running pods. */

/** What the last attempt of hot-plug could not do, or what the next one is to do. */
export function notPlugged(facts: Facts): Advice | undefined {
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
  const { change, name, failure, isPaused } = failed;
  if (failure === undefined) {
    const done = change === "plug" ? "plugged" : "unplugged";
    return problem("HotPlugPending", `Network ${name} is not ${done} yet${next}.`);
  }
  const later = isPaused === true ? "; plexusd tries again in some minutes" : next;
  const shown = { subject: name, ...failure, ...at(facts.node), retriedBy: "plexusd" } as const;
  return couldNot(`Could not ${change}`, shown, later);
}

function nextAttempt({ hotPlug }: Facts): string {
  const { nextMs, at } = hotPlug ?? {};
  if (at === undefined) return "; plexusd has not compared the pod with its annotation yet";
  if (nextMs === undefined) return "";
  return nextMs <= 0
    ? "; plexusd is trying again now"
    : `; plexusd tries again in ${Math.ceil(nextMs / 1000)} s`;
}

export function interfaceLost(facts: Facts): Advice | undefined {
  const { lostInterfaces } = facts;
  if (lostInterfaces.length === 0 || !isRunning(facts)) return undefined;
  return problem("InterfaceLost", `${capitalized(lostInterfaces.join("; "))}.`);
}

export function notManaged({ networks, isHotPluggable }: Facts): Advice | undefined {
  const unmanaged = networks.filter(({ pending }) => pending?.change === "unmanaged");
  if (!isHotPluggable || unmanaged.length === 0) return undefined;
  const names = unmanaged.map(({ network, ifName = "" }) => ({ displayName: network, ifName }));
  return problem("NotManaged", `${capitalized(unknownText(names))}.`);
}

export function defaultNetworkChanged({ defaultNetworkEdit: edit }: Facts): Advice | undefined {
  return edit === undefined ? undefined : problem("AnnotationChanged", `${capitalized(edit)}.`);
}
