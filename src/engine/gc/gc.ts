import { asCniError, CniError } from "#cni/error.ts";
import type { GcRequest } from "#cni/plugin/request.ts";
import { gcNetwork } from "#cni/runtime/chain.ts";
import { limitedRunner } from "#cni/runtime/limited-runner.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { configForCall, namesDefaultNetwork } from "#engine/config.ts";
import { collectErrors, combineErrors } from "#engine/del/failures.ts";
import { plannedNetwork } from "#engine/del/planned-dels.ts";
import { isMadeSinceCall } from "#engine/del/since-call.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import type { DamagedRecord, RecordList } from "#engine/ports/records.ts";
import { type AttachmentRecord, byAge } from "#engine/record/record.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { type RecordKey, recordFileName } from "#lib/files/state-files.ts";
import { addCachedAdds, addMultusSandboxes } from "./multus-sandboxes.ts";
import { type CompleteNetwork, NetworksToCollect } from "./networks.ts";
import { detachStale, markStale } from "./stale.ts";
import { staleSandboxes } from "./stale-sandboxes.ts";

/**
 * Time limits while other operations on the node wait: for plugins and the operations of this
 * process together, and for each. Other shims' operations have ended: ours locks the node first.
 */
const [exclusiveMaxMs, stepMaxMs] = [10_000, 5000];

/**
 * GC (CNI 1.1.0 §4 "GC"): the plugins collect while no other operation runs. The DELs of stale
 * sandboxes, which may hang, run concurrently with operations on other sandboxes: the shim shares
 * its lock of the node with the first of them.
 * @throws CniError when a plugin or a DEL failed, 102 for several of them
 */
export async function gc(ctx: CallContext, request: GcRequest, locks: SandboxLocks): Promise<void> {
  const { stale, errors } = await collect(ctx, request, locks);
  using _collection = await locks.all.shared();
  const all = [...errors, ...(await detachStale(ctx, stale, { path: request.path, locks }))];
  if (all.length > 0)
    throw combineErrors(all, `garbage collection ended with ${all.length} errors`);
}

/**
 * The exclusive part of GC, which has a time limit for that reason. The runtime knows only
 * (containerID, its own interface), so an attachment is valid when its container is. Records of
 * {@link staleSandboxes} are marked, and all others are valid. Then each network that records of
 * this list have, and the default network, collects with its complete list of valid attachments,
 * also of other lists, of other users of libcni, and of the Docker driver, which the shim excludes
 * meanwhile. Errors do not stop it.
 *
 * The default network's list also contains the runtime's attachments: a pod that was attached
 * before Plexus was installed has no record and must not be collected. So the default network of
 * plexusd's file, or of another list's records, collects only for the list with its name. If the
 * runtime sends no list, those pods are unknown, so no record is stale and default networks are
 * skipped. (A null or empty list means that nothing is valid.) If a valid container's record is
 * unusable, its teardown plan names its attachments. Without a plan no list is complete and no
 * plugin is called.
 */
async function collect(
  ctx: CallContext,
  request: GcRequest,
  locks: SandboxLocks,
): Promise<{ stale: RecordList; errors: CniError[] }> {
  const { clock } = ctx.deps;
  const begunMs = clock();
  using _collection = await ctx.trace.phase("lock", () => excludeOthers(ctx, locks));
  const pluginsMaxMs = exclusiveMaxMs - (clock() - begunMs);
  const { validAttachments: fromRuntime, conf } = request;
  const listed = new Set(fromRuntime?.map((attachment) => attachment.containerID));
  const { records, damaged } = await ctx.deps.records.list();
  ctx.signal.throwIfAborted();
  const attachedSince = attachedSinceCall(ctx, records);
  const scope = { listName: conf.name, listed, attachedSince };
  const stale =
    fromRuntime === undefined
      ? { records: [], damaged: [] }
      : await staleSandboxes(ctx, { records, damaged }, scope);
  const staleNames = new Set([...stale.records, ...stale.damaged].map(recordFileName));
  const isValid = (key: RecordKey): boolean => !staleNames.has(recordFileName(key));
  await markStale(ctx, stale);
  const networks = new NetworksToCollect(conf.name);
  // A network collects with the configuration that is added last: the newest.
  const oldestFirst = records.toSorted(byAge(ctx.deps.bootId()));
  const unusable = damaged.filter(isValid);
  const errors = [
    ...(await collectErrors(oldestFirst, async (each) => networks.addRecord(each, isValid(each)))),
    ...(await collectErrors(unusable, async (each) => addByPlan(networks, each))),
    ...(await addOtherRecords(ctx, networks)),
    ...(fromRuntime === undefined ? [] : await addDefaultNetwork(ctx, networks, request.path)),
  ];
  await leaveClusterNetwork(ctx, networks);
  await addMultusSandboxes(ctx, networks);
  await addCachedAdds(ctx, networks);
  errors.push(...(await collectNetworks(ctx, networks.complete(fromRuntime), pluginsMaxMs)));
  return { stale, errors };
}

/**
 * The containers whose ADDs ended, or began, since the runtime called: it attaches nothing during GC,
 * but another one may have while the shim waited for the node, or this process was stopped.
 */
function attachedSinceCall(
  ctx: CallContext,
  records: readonly AttachmentRecord[],
): ReadonlySet<string> {
  const later = records.filter((record) => isMadeSinceCall(ctx, record));
  return new Set([...(ctx.busy ?? []), ...later.map(({ containerId }) => containerId)]);
}

/** @throws CniError 11 when operations of this process, such as an agent's, do not end in time */
async function excludeOthers({ signal }: CallContext, locks: SandboxLocks): Promise<Disposable> {
  using limit = deadline(stepMaxMs, signal);
  try {
    return await locks.all.exclusive(limit.signal);
  } catch (cause) {
    signal.throwIfAborted();
    const message = `garbage collection did not begin: other operations have been running for ${stepMaxMs / 1000} s; repeat it later`;
    throw new CniError("TryAgainLater", message, { cause });
  }
}

/** Adds the attachments of another engine: the runtime knows none of its containers. */
async function addOtherRecords(ctx: CallContext, networks: NetworksToCollect): Promise<CniError[]> {
  const { records = [], damaged = [] } = (await ctx.deps.otherRecords?.list()) ?? {};
  for (const record of records) networks.keepRecord(record);
  return collectErrors(damaged, async (each) => addByPlan(networks, each));
}

/** @throws CniError when there is no usable plan: then no list can be complete */
function addByPlan(networks: NetworksToCollect, { containerId, plan, error }: DamagedRecord): void {
  if (plan === undefined) {
    networks.markIncomplete();
    throw error;
  }
  for (const { name, ifName } of plan.steps.map(({ call }) => plannedNetwork(call)))
    networks.keep(name, containerId, ifName);
}

function addDefaultNetwork(
  ctx: CallContext,
  networks: NetworksToCollect,
  cniPath: readonly string[],
): Promise<CniError[]> {
  return collectErrors([networks], async () => {
    const { list, displayName } = await defaultNetwork(ctx);
    const searchPath = delegateSearchPath(ctx.config, cniPath);
    networks.add({ list, displayName, searchPath, isDefault: true });
  });
}

/** Only in the list with the name of the cluster's network does the runtime list all pods with it. */
async function leaveClusterNetwork(ctx: CallContext, networks: NetworksToCollect): Promise<void> {
  if (!namesDefaultNetwork(ctx.deps.config())) return;
  try {
    const config = configForCall(ctx.deps.config(), {});
    networks.leaveToItsList((await defaultNetwork({ ...ctx, config })).list.name);
  } catch (error) {
    networks.markIncomplete();
    const fields = { err: asCniError(error) };
    ctx.logger.warn(fields, "cannot use the cluster's default network: nothing is collected");
  }
}

async function collectNetworks(
  ctx: CallContext,
  networks: readonly CompleteNetwork[],
  maxMs: number,
): Promise<CniError[]> {
  const errors: CniError[] = [];
  const budget = new TimeBudget(ctx.deps.clock, maxMs);
  const limits = { budget, eachMs: stepMaxMs, task: "garbage collection" };
  for (const { list, displayName, searchPath, valid } of networks) {
    const run = limitedRunner(ctx.delegateRunner(displayName), limits);
    const options = { searchPath, timeoutMs: ctx.config.delegateTimeoutMs, run };
    const failures = await gcNetwork(list, valid, options);
    errors.push(...failures.map(asCniError));
  }
  return errors;
}
