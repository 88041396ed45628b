import { currentVersion } from "#cni/versions.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { planAttachments } from "#engine/plan/plan-attachments.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { attempt, type PlanProblem } from "#engine/plan/problems.ts";
import { checkReadinessFile } from "#engine/plan/readiness.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { ExplainedNetwork, ExplainedProblem } from "./explanation.ts";

interface ExplainInput {
  readonly pod: Pod;
  readonly record: AttachmentRecord | undefined;
  readonly searchPath: readonly string[];
  readonly conf: JsonObject;
}

/** The networks that an ADD would attach now, compared with the record, and all problems. */
export interface ExplainedNetworks {
  readonly networks: readonly ExplainedNetwork[];
  readonly problems: readonly ExplainedProblem[];
}

/** Plans an ADD of the pod, collects its problems, and compares its networks with the record. */
export async function explainNetworks(
  ctx: CallContext,
  { pod, record, searchPath, conf }: ExplainInput,
): Promise<ExplainedNetworks> {
  const { config } = ctx;
  const found: PlanProblem[] = [];
  const planning = { ...ctx, problems: found };
  await attempt(planning, () => checkReadinessFile(ctx));
  const request = {
    containerId: record?.containerId ?? "",
    ifName: record?.ifName ?? "eth0",
    cniArgs: [],
    path: searchPath.filter((dir) => dir !== config.binDir),
    conf: { cniVersion: versionOf(conf), runtimeConfig: {} },
    // A new sandbox has no other.
    existingInterfaces: async () => new Set(["lo"]),
  };
  const plan = await attempt(planning, () => planAttachments(planning, request, pod));
  const isDefaultKnown =
    Object.keys(conf).length > 0 ||
    config.clusterNetwork !== undefined ||
    config.delegates.length > 0;
  // Else only the calls of the container runtime name the default network.
  const problems = found.filter(
    ({ error }) => isDefaultKnown || error.reason !== "MissingDefaultNetwork",
  );
  const networks = compared(plan?.attachments ?? [], problems, record);
  return { networks, problems: problems.map(explainedProblem) };
}

function versionOf({ cniVersion }: JsonObject): string {
  return typeof cniVersion === "string" ? cniVersion : currentVersion;
}

/** The planned networks and those that cannot be planned, with what the record says about each. */
function compared(
  planned: readonly PlannedAttachment[],
  problems: readonly PlanProblem[],
  record: AttachmentRecord | undefined,
): ExplainedNetwork[] {
  const left = [...(record?.attachments ?? [])];
  // A pod may have a network several times.
  const take = (isWanted: (each: RecordedAttachment) => boolean): RecordedAttachment[] => {
    const index = left.findIndex(isWanted);
    return index < 0 ? [] : left.splice(index, 1);
  };
  const attached = (network: string) =>
    take(({ displayName }) => displayName === network).map(fromRecord)[0];
  const names = new Set(planned.map(({ displayName }) => displayName));
  const unplanned = new Set(problems.flatMap(({ network }) => network ?? []));
  const unknownDefault = planned.some(({ isDefault }) => isDefault)
    ? []
    : take(({ isDefault }) => isDefault);
  return [
    ...unknownDefault.map((each) => ({ ...fromRecord(each), network: each.displayName })),
    ...planned.map(({ displayName: network, isDefault, list }) => {
      const plugins = list.plugins.map(({ type }) => type);
      return { network, isDefault, plugins, ...attached(network) };
    }),
    ...[...unplanned]
      .filter((network) => !names.has(network))
      .map((network) => ({ network, isDefault: false, ...attached(network) })),
  ];
}

function fromRecord(recorded: RecordedAttachment): Omit<ExplainedNetwork, "network"> {
  const { isDefault, state, ifName, device, ignoredRequests: ignored } = recorded;
  if (state !== "attached") return { isDefault };
  const addresses = addressesOf(recorded);
  return omitUndefined({ isDefault, ifName, addresses, device: device?.id, ignored });
}

function explainedProblem({ error, network, isTolerated }: PlanProblem): ExplainedProblem {
  const { reason, code, message } = error;
  return omitUndefined({ network, isTolerated, reason, code, message });
}

function addressesOf({ result }: RecordedAttachment): string[] {
  const ips = result?.ips;
  if (!Array.isArray(ips)) return [];
  return ips.flatMap((ip) =>
    isJsonObject(ip) && typeof ip.address === "string" ? [ip.address] : [],
  );
}
