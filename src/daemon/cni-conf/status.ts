import { isDeepStrictEqual } from "node:util";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import type { EventText } from "#engine/ports/cluster.ts";
import { type Condition, eventOf } from "#lib/condition.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRow } from "#lib/reasons.ts";
import type { NextPrimary, PrimaryChoice } from "./choose-primary.ts";
import { type CniConfDir, type ConfCopy, firstCopy, unusedCopies } from "./conf-dir.ts";

/** The states of the node's CNI configuration, each with its finding and what to do about it. */
const states = {
  /** The container runtime calls Plexus, and the primary CNI's configuration can be used. */
  active: { reason: "PlexusConfActive" },
  /** plexusd waits for a primary CNI or a prerequisite; an existing file of Plexus stays. */
  waiting: { reason: "PlexusConfWaiting" },
  /** The container runtime uses another file. */
  shadowed: {
    reason: "PlexusConfShadowed",
    step: "remove that file, or give it a name that sorts after 00-plexus.conflist; if it is also the default network, new pods then wait up to a minute until plexusd takes the next file",
  },
  /** Another process removed or changed Plexus's file; it is being restored. */
  missing: {
    reason: "PlexusConfMissing",
    step: "find out what removes the file; plexusd writes it again",
  },
  /** Another process renamed Plexus's file; it is being restored. */
  "foreign-rename": {
    reason: "PlexusConfForeignRename",
    step: "find out what renames the file, most likely another meta-plugin; plexusd writes it again",
  },
} as const satisfies Readonly<Record<string, Pick<Condition, "reason" | "step">>>;

export type NodeConfState = keyof typeof states;
export const nodeConfStates = Object.keys(states) as NodeConfState[];

/** The state and its reason. */
export interface NodeConfStatus {
  readonly state: NodeConfState;
  readonly reason: string;
  /** The file that the default network is delegated to. */
  readonly primary?: string;
  /** The primary CNI's file, if it was used and is now missing or unusable. */
  readonly lost?: string;
  /** The file that is taken over as the primary CNI's unless the files change. */
  readonly next?: NextPrimary;
  /** The plugins of other agents that the container runtime runs after Plexus's. */
  readonly chained?: readonly string[];
  /** The plugins of the primary CNI's file that the default network leaves out: those and earlier ones. */
  readonly omitted?: readonly string[];
  /** Those of them that are not installed. */
  readonly missing?: readonly string[];
  /** Why some of these do not run, or will fail, one sentence. */
  readonly chainProblem?: string;
  /** What plexusd cannot see and therefore assumes to be right, one sentence. */
  readonly warning?: string;
}

/** What follows Plexus's plugin, as a part of a status. */
export type Chain = Pick<NodeConfStatus, "chained" | "missing" | "chainProblem">;

/** `chained` follow Plexus's plugin; `missing` are the types that are not installed. */
export function chainOf(
  dir: CniConfDir,
  { chained, missing }: { chained: readonly PluginConf[]; missing: readonly string[] },
): Chain {
  const types = (firstCopy(dir)?.conf.chained ?? chained).map(({ type }) => type);
  const isMissing = (type: string): boolean => missing.includes(type);
  const absent = types.filter(isMissing);
  const what = "not installed, so new pods fail, or with CRI-O start without Plexus";
  const problems = absent.length === 0 ? [] : [`${absent.join(", ")}: ${what}`];
  for (const { name, conf } of unusedCopies(dir)) {
    const unused = conf.chained.map(({ type }) => type).filter(isMissing);
    if (unused.length === 0) continue;
    const step = `so new pods start without what ${name} asks for`;
    problems.push(`${unused.join(", ")}: not installed, ${step}`);
  }
  return omitUndefined({
    chained: types.length === 0 ? undefined : types,
    missing: absent.length === 0 ? undefined : absent,
    chainProblem: problems.length === 0 ? undefined : problems.join("; "),
  });
}

/** Whether the container runtime calls Plexus: for the Node's event, `doctor` and `explain`. */
export function confCondition({ state, reason: message, lost, next }: NodeConfStatus): Condition {
  const seconds = next && Math.max(0, Math.ceil((Date.parse(next.at) - Date.now()) / 1000));
  const change = next && `${next.file} is taken over in ${seconds} s`;
  if (state !== "waiting") return { ...states[state], message, next: change };
  const until = `until ${change ?? "then"}`;
  if (lost === undefined)
    return { ...states.waiting, message, next: `new pods on this node fail or wait ${until}` };
  const step = "restore the file, or check the primary CNI's agent";
  const effect = `new pods on this node fail ${until}`;
  return { reason: "PrimaryConfMissing", message, step, next: effect };
}

/** The event of the Node for a change of its CNI configuration; undefined if users need not know. */
export function nodeConfEvent(
  status: NodeConfStatus,
  before: NodeConfStatus,
): EventText | undefined {
  const [found, was] = [confCondition(status), confCondition(before)];
  const isOther = found.reason !== was.reason || found.message !== was.message;
  if (status.state !== "active") {
    // A node waits for its primary CNI when it starts.
    const isUsual = found.reason === "PlexusConfWaiting" && before.state !== "active";
    return isOther && !isUsual ? eventOf(found) : undefined;
  }
  const chain = chainConditions(status).find(({ reason }) => reason === "NextPluginMissing");
  if (chain !== undefined && status.missing && status.chainProblem !== before.chainProblem)
    return eventOf(chain);
  if (before.state !== "active") {
    const message = [status.reason, status.warning ?? []].flat().join("; ");
    return { reason: found.reason, message };
  }
  if (status.primary === before.primary) return undefined;
  return { reason: "PrimaryNetworkChanged", message: status.reason };
}

/** What follows Plexus's plugin, or does not although it should. */
export function chainConditions({
  chained = [],
  omitted = [],
  chainProblem,
  primary,
}: NodeConfStatus): Condition[] {
  const reason = "NextPluginMissing";
  const { step } = reasonRow(reason);
  const problems: Condition[] =
    chainProblem === undefined ? [] : [{ reason, message: chainProblem, step }];
  const left = omitted.join(", ");
  if (chained.length > 0) {
    const others =
      left === "" ? "" : `; the default network leaves out ${left}, which its file has too`;
    const message = `the container runtime runs ${chained.join(", ")} once for each pod${others}`;
    return [{ reason: "ChainedPlugins", message }, ...problems];
  }
  if (left === "") return problems;
  const message = `no pod gets ${left}: its agent has removed it from 00-plexus.conflist, but not from ${primary}; remove it there, or start the agent again`;
  return [{ reason: "PluginsLeftOut", message }, ...problems];
}

/** The status when Plexus's file is as wanted. */
export function statusWhenUpToDate(choice: PrimaryChoice, dir: CniConfDir): NodeConfStatus {
  const primary = primaryFileOf(choice);
  const first = dir.sortedBefore[0];
  if (first !== undefined && !isCurrentCopy(firstCopy(dir), dir)) {
    const reason = `the container runtime takes ${first}, which sorts before ${plexusConfName}`;
    return { state: "shadowed", reason, ...primary };
  }
  switch (choice.kind) {
    case "waiting":
      return omitUndefined({ state: "waiting" as const, reason: choice.reason, lost: choice.lost });
    case "not-needed":
      return { state: "active", reason: "without a primary CNI" };
    case "primary":
      return { state: "active", reason: `delegating to ${choice.primary.file}`, ...primary };
  }
}

/** Whether the container runtime calls Plexus by another agent's file as by Plexus's own. */
export function isCurrentCopy(
  copy: ConfCopy | undefined,
  { conf }: Pick<CniConfDir, "conf">,
): boolean {
  return copy !== undefined && isDeepStrictEqual(copy.conf.own.plugins, conf?.own.plugins);
}

/** The file that the default network is delegated to, if any, as a part of a status. */
export function primaryFileOf(choice: PrimaryChoice): { primary?: string } {
  return choice.kind === "primary" ? { primary: choice.primary.file } : {};
}
