import { currentVersion } from "#cni/versions.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { changesOf, type PodChanges } from "#engine/hotplug/desired-networks.ts";
import { outdatedInterfaces } from "#engine/hotplug/outdated.ts";
import { linkProblems, nodeLinks } from "#engine/inventory/links.ts";
import { planAttachments } from "#engine/plan/plan-attachments.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { requirePlugins } from "#engine/plan/plugins/find-plugins.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import { readinessProblem } from "#engine/plan/readiness.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { type AttachmentRecord, usableRecord } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import { type AttachedNetwork, requestsOf } from "./attached-network.ts";
import { type ExplainedNetwork, type Explanation, explainedProblem } from "./explanation.ts";
import { shadowedRanges } from "./shadowed-ranges.ts";

interface ExplainInput {
  readonly pod: Pod;
  /** The networks that the pod has. */
  readonly attached: readonly AttachedNetwork[];
  readonly record: AttachmentRecord | undefined;
  readonly searchPath: readonly string[];
  readonly conf: JsonObject;
}

/** What is planned for a pod that no call names. A new sandbox has no other interface. */
export const requestOfAny = {
  ...{ containerId: "", ifName: "eth0", cniArgs: [], path: [] },
  conf: { cniVersion: currentVersion, runtimeConfig: {} },
  existingInterfaces: async () => new Set(["lo"]),
};

/** Plans an ADD of the pod, collects its problems, and compares the networks with those it has. */
export async function explainNetworks(
  ctx: CallContext,
  { pod, attached, record, searchPath, conf }: ExplainInput,
): Promise<Pick<Explanation, "networks" | "problems">> {
  const { config } = ctx;
  const found: PlanProblem[] = [];
  const planning = { ...ctx, problems: found };
  const notReady = await readinessProblem(ctx);
  if (notReady !== undefined) found.push({ error: notReady });
  const request = { ...requestOfAny, ifName: record?.ifName ?? "eth0", path: searchPath };
  const { attachments } = await planAttachments(planning, request, pod);
  await requirePlugins(planning, attachments, delegateSearchPath(config, searchPath));
  // None when they cannot be listed: plugins then say what they miss.
  const links = await nodeLinks(ctx).catch(() => undefined);
  if (links !== undefined) found.push(...attachments.flatMap((each) => linkProblems(each, links)));
  const isDefaultKnown = Object.keys(conf).length > 0 || config.clusterNetwork !== undefined;
  // Else only the calls of the container runtime name the default network.
  const problems = found.filter(
    ({ error }) => isDefaultKnown || error.reason !== "MissingDefaultNetwork",
  );
  // None when that is not known at the moment: the problems then say why.
  const outdated = new Set<string | undefined>(
    record && (await outdatedInterfaces(ctx, record).catch(() => [])),
  );
  const changes = record && usableRecord(record) ? changesOf(config, record, pod) : noChanges;
  const shadowed = record && (await shadowedRanges(ctx, pod, record));
  const networks = compared(attachments, problems, { attached, changes }).map((each) => {
    const shadows = shadowed?.get(each.ifName ?? "") ?? [];
    return {
      ...each,
      ...(outdated.has(each.ifName) && { isOutdated: true }),
      ...(shadows.length > 0 && { shadows }),
    };
  });
  return { networks, problems: problems.map(explainedProblem) };
}

const noChanges: PodChanges = { additions: [], removals: [] };

/** Each planned or unplannable network with what the pod has of it; then what else the pod has. */
function compared(
  planned: readonly PlannedAttachment[],
  problems: readonly PlanProblem[],
  { attached, changes }: { attached: readonly AttachedNetwork[]; changes: PodChanges },
): ExplainedNetwork[] {
  const isReadable = problems.every(({ error }) => error.reason !== "InvalidAnnotation");
  const removed = attached.filter(({ recorded }) =>
    changes.removals.some((each) => each === recorded),
  );
  const left = attached.filter((each) => !removed.includes(each));
  // A pod may have a network several times.
  const take = (isWanted: (each: AttachedNetwork) => boolean): AttachedNetwork[] => {
    const index = left.findIndex(isWanted);
    return index < 0 ? [] : left.splice(index, 1);
  };
  const taken = (network: string, isDefault = false) =>
    take((each) => each.name === network || (isDefault && isDefaultOfOther(each)))[0]?.explained;
  const added = new Set(
    changes.additions.map(({ selection: { namespace, name } }) => `${namespace}/${name}`),
  );
  const present = (network: string): Partial<ExplainedNetwork> =>
    taken(network) ?? (added.has(network) ? { pending: "plug" } : {});
  const names = new Set(planned.map(({ displayName }) => displayName));
  const unplanned = new Set(problems.flatMap(({ network }) => network ?? []));
  const unknownDefault = planned.some(({ isDefault }) => isDefault)
    ? []
    : take(({ isDefault }) => isDefault);
  return [
    ...unknownDefault.map(({ name: network, explained }) => ({ network, ...explained })),
    ...planned.map((each) => {
      const { displayName: network, isDefault, list, selection } = each;
      const plugins = list.plugins.map(({ type }) => type);
      const has = isDefault ? taken(network, isDefault) : present(network);
      const isConfigured = selection === undefined && has?.ifName === undefined;
      const named = { network, isDefault, ...(isConfigured && { isConfigured }) };
      return { ...named, cniName: list.name, plugins, ...requestsOf(each), ...has };
    }),
    ...[...unplanned]
      .filter((network) => !names.has(network))
      .map((network) => ({ network, isDefault: false, ...present(network) })),
    ...left
      .filter(({ explained }) => explained.ifName !== undefined)
      .map(({ name: network, explained }) => ({
        ...{ network, ...explained, ...(isReadable && { isUnrequested: true }) },
      })),
    ...removed.map(({ name: network, explained, recorded }) => ({
      ...{ network, ...explained, ...(recorded && { ifName: recorded.ifName }) },
      pending: "unplug" as const,
    })),
  ];
}

/** Another meta-plugin may call the default network by another name. */
function isDefaultOfOther({ isDefault, explained }: AttachedNetwork): boolean {
  return isDefault && explained.attachedBy !== undefined;
}
