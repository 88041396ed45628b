import type { PodFindings } from "#engine/call/pod-findings.ts";
import { missingNetworks } from "#engine/check/not-attached.ts";
import { defaultEngineConfig, type EngineConfig } from "#engine/config.ts";
import { advise } from "#engine/explain/advice/advice.ts";
import { adviceOf } from "#engine/explain/advice/sentence.ts";
import { mayHotPlug } from "#engine/hotplug/desired-networks.ts";
import type { LastAttempt } from "#engine/hotplug/reports/outcome.ts";
import { type NodeView, nodeContext } from "#engine/inventory/inventory.ts";
import { isInterruptedAdd } from "#engine/leftovers/leftover.ts";
import { configOfNamespace } from "#engine/namespace-rules.ts";
import { type Pod, type PodName, type PodState, statusFailure } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { recordsOf } from "#engine/ports/records.ts";
import {
  type AttachmentRecord,
  addHasEnded,
  byAge,
  mayRun,
  usableRecord,
} from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { statusEntries } from "#npwg/network-status.ts";
import { networkStatusAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import { addressHolders } from "./address-holders.ts";
import { type AttachedBefore, attachedTo } from "./attached-network.ts";
import type { CallHistory } from "./call-history.ts";
import { explainNetworks } from "./explain-networks.ts";
import {
  type ExplainedRecord,
  type Explanation,
  explainedProblem,
  type FindLeases,
  type NodeFacts,
  type PodStates,
} from "./explanation.ts";

/** What an explanation needs beside the engine's own dependencies. */
export interface ExplainOptions extends NodeView {
  readonly pods: PodStates;
  readonly node: NodeFacts;
  /** The last attempt to give the running pod the networks of its annotation, if there was one. */
  readonly lastAttempt?: LastAttempt | undefined;
  /** @default none that are known */
  readonly leases?: FindLeases;
}

/** Everything known about a pod's networks, with advice. Reads only; leaves out what is unknown. */
export async function explainPod(
  deps: EngineDeps & { readonly history: CallHistory; readonly findings: PodFindings },
  name: PodName,
  options: ExplainOptions,
): Promise<Explanation> {
  const { pod, known, sourceProblem } = await lookUp(deps, name, options);
  const recorded = await recordsByAge(deps, name, pod);
  const record = recorded.at(-1);
  const calls = deps.history.of(pod ?? name);
  const isHere = options.node.name === "" || pod?.node === options.node.name;
  const isServed = pod !== undefined && !pod.hostNetwork && isHere;
  const explained = isServed
    ? await networksOf(deps, { ...options, pod, record, calls })
    : { networks: [], problems: [] };
  const config = { ...defaultEngineConfig, ...deps.config() };
  const isHotPluggable = mayHotPlug(config, name.namespace);
  const last = isHotPluggable ? options.lastAttempt : undefined;
  const { uid, node, hostNetwork, phase, isTerminating }: Partial<PodState> = pod ?? {};
  const published = interfacesIn(pod?.networkStatus);
  const explanation = omitUndefined({
    pod: omitUndefined({ ...name, uid, node, hostNetwork, phase, isTerminating }),
    node: options.node,
    annotation: known?.annotations[networksAnnotation],
    ...explained,
    record: record && (await explainedRecord(deps, record, published)),
    hotPlug: last && { ...last, problems: last.problems.map(explainedProblem) },
    published,
    calls,
  });
  const facts = omitUndefined({
    ...explanation,
    isHotPluggable,
    replaced: recorded.slice(0, -1).filter(usableRecord).length,
    stated: deps.findings.of(name),
    hasAddress: pod !== undefined && pod.podIps.length > 0,
    missing: pod === undefined ? [] : missingOf(pod, config),
    damagedRecord: await damageOf(deps, name, record),
    sourceProblem,
  });
  const advice = adviceOf(advise(facts));
  if (advice.finding !== "IpamExhausted") return { ...explanation, advice };
  const holders = await addressHolders(deps, { ...explanation, advice }, options.leases);
  return { ...explanation, advice: { ...advice, sentence: `${advice.sentence}${holders}` } };
}

/** While the shim of an ADD lives, the sandbox is locked; it may end at this moment. */
async function addState(
  { records, clock }: EngineDeps,
  record: AttachmentRecord,
): Promise<ExplainedRecord["add"]> {
  if (!mayRun(record) || record.hasLostUpdate || addHasEnded(record)) return undefined;
  const isLocked = await records.isLocked(record.containerId);
  return isLocked || !isInterruptedAdd(record, clock()) ? "running" : "interrupted";
}

function interfacesIn(status = ""): readonly string[] | undefined {
  const entries = statusEntries(status).map((each) => each.interface);
  const names = entries.filter((name) => typeof name === "string");
  return names.length === 0 ? undefined : names;
}

/** What the pod lacks if it has no record. No grace period: between two sandboxes, it does not run. */
function missingOf(pod: PodState, { plexusNamespace }: EngineConfig): readonly string[] {
  const unrecordedForMs = Number.POSITIVE_INFINITY;
  return missingNetworks(pod, { isRecorded: false, unrecordedForMs, plexusNamespace });
}

async function lookUp(
  { source }: EngineDeps,
  name: PodName,
  { pods }: ExplainOptions,
): Promise<{ pod?: PodState; known?: Pod; sourceProblem?: string }> {
  try {
    const pod = await pods.find(name);
    return omitUndefined({ pod, known: pod, sourceProblem: source?.notReadyReason() });
  } catch (error) {
    const known = source?.knownPod?.(name);
    return omitUndefined({ known, sourceProblem: errorMessage(error) });
  }
}

/**
 * The records of the pod, the newest last; of one that was created again under the same name, its
 * own. The mirror of a static pod may be created again while the pod runs.
 */
async function recordsByAge(
  { records, bootId }: EngineDeps,
  name: PodName,
  current: PodState | undefined,
): Promise<AttachmentRecord[]> {
  const found = await recordsOf(records, current ?? name);
  return found.toSorted(byAge(bootId()));
}

/** Nothing else in a damaged record tells whose it is. */
async function damageOf({ records }: EngineDeps, { name }: PodName, record?: AttachmentRecord) {
  if (record !== undefined) return record.hasLostUpdate && "its record has lost its last update";
  const { damaged } = await records.list();
  return damaged.find(({ mayContain }) => mayContain(JSON.stringify(name)))?.error.message;
}

async function explainedRecord(
  deps: EngineDeps,
  record: AttachmentRecord,
  published: Explanation["published"],
): Promise<ExplainedRecord> {
  const { createdAt, containerId, pod, teardown, pendingStatus = {} } = record;
  // A plugin may name other interfaces than it was asked for.
  const wanted = interfacesIn(pendingStatus[networkStatusAnnotation]) ?? [];
  const isShown = wanted.every((name) => published?.includes(name) !== false);
  const failure = pod && deps.publisher.failures().get(`${pod.namespace}/${pod.name}`);
  return omitUndefined({
    createdAt,
    containerId,
    statusFailure: failure ?? (isShown ? undefined : statusFailure("others have changed it")),
    add: await addState(deps, record),
    teardownError: teardown?.lastError,
    teardownReason: teardown?.reason,
  });
}

async function networksOf(
  deps: EngineDeps,
  of: ExplainOptions & AttachedBefore & { readonly pod: PodState },
): Promise<Pick<Explanation, "networks" | "problems">> {
  const attached = await attachedTo(deps, of.pod, of);
  const ctx = nodeContext(deps, of);
  const config = configOfNamespace(ctx.config, of.pod.namespace);
  return explainNetworks({ ...ctx, config }, { ...of, attached });
}
