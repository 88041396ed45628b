import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import type { GcRequest } from "#cni/plugin/request.ts";
import { gcNetwork } from "#cni/runtime/chain.ts";
import type { CallContext } from "#engine/deps.ts";
import { delBudget } from "#engine/detach/detach.ts";
import { detachRecord } from "#engine/detach/detach-record.ts";
import { netnsOfRecord } from "#engine/detach/netns.ts";
import { detachUnrecorded } from "#engine/detach/recover.ts";
import { loadStored } from "#engine/detach/stored.ts";
import { collectErrors, combineErrors } from "#engine/failures.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { DamagedRecord } from "#engine/record-store.ts";
import { delegateSearchPath } from "#engine/search-path.ts";
import { addMultusSandboxes } from "./multus-sandboxes.ts";
import { type CompleteNetwork, NetworksToCollect } from "./networks.ts";

/** What a sandbox gets at least to be detached, however many there are: plugins are slow, but seldom slower. */
const recordBudgetMinMs = 10_000;

/** What the state directory holds, and which of it the runtime still uses. */
interface Inventory {
  readonly records: readonly AttachmentRecord[];
  readonly damaged: readonly DamagedRecord[];
  readonly isValid: (record: RecordKey) => boolean;
}

/**
 * GC. The runtime knows only (containerID, its own interface), so an attachment is valid when its
 * container is. Every other record is torn down; then each network that was ever recorded, and
 * the default network, collects with its own complete list. Errors do not stop it.
 *
 * The default network's list holds the runtime's attachments as well: a pod that was attached
 * before Plexus was installed has no record and must not be collected. Without a list from the
 * runtime (a null or empty one says that nothing is valid) those pods are unknown: then no record
 * is torn down and default networks are passed over. Where a valid container's record is unusable,
 * its teardown plan names its attachments; without that no list is complete and no plugin is called.
 * @throws CniError with every failure
 */
export async function gc(ctx: CallContext, request: GcRequest): Promise<void> {
  const { validAttachments } = request;
  const fromRuntime = validAttachments.kind === "list" ? validAttachments.items : undefined;
  const containers = new Set(fromRuntime?.map((attachment) => attachment.containerID));
  const inventory = {
    ...(await ctx.deps.records.list()),
    isValid: ({ containerId }: RecordKey) =>
      fromRuntime === undefined || containers.has(containerId),
  };
  const networks = new NetworksToCollect();
  const detachErrors = await detachStale(ctx, request, inventory);
  const addErrors = [
    ...(await addRecorded(ctx, networks, inventory)),
    ...(fromRuntime === undefined ? [] : await addDefaultNetwork(ctx, networks, request.path)),
  ];
  await addMultusSandboxes(
    ctx,
    networks,
    (containerId) => fromRuntime === undefined || containers.has(containerId),
  );
  const gcErrors = await collectNetworks(ctx, networks.complete(fromRuntime));
  const errors = [...detachErrors, ...addErrors, ...gcErrors];
  if (errors.length === 0) return;
  throw combineErrors(errors, `garbage collection left ${errors.length} things behind`);
}

/** Tears down what belongs to containers that are no longer valid, in equal shares of the time of a DEL. */
async function detachStale(
  ctx: CallContext,
  request: GcRequest,
  { records, damaged, isValid }: Inventory,
): Promise<CniError[]> {
  const staleRecords = records.filter((record) => !isValid(record));
  const staleDamaged = damaged.filter((record) => !isValid(record));
  const budget = delBudget(ctx);
  let left = staleRecords.length;
  return [
    ...(await collectErrors(staleRecords, async (record) => {
      const share = budget.share(left--, { atLeastMs: recordBudgetMinMs });
      const netns = await netnsOfRecord(ctx, record);
      await detachRecord(ctx, record, { netns, path: request.path, budget: share });
    })),
    ...(await collectErrors(staleDamaged, (record) => detachDamaged(ctx, request, record))),
  ];
}

async function detachDamaged(
  ctx: CallContext,
  request: GcRequest,
  { containerId, ifName, reason }: DamagedRecord,
): Promise<void> {
  const { path, conf } = request;
  const { cniVersion } = conf;
  const sandbox = { containerId, ifName, netns: "", path, cniArgs: [], cniVersion };
  const error = new CniError(CniErrorCode.DecodingFailure, reason);
  await detachUnrecorded(ctx, sandbox, { state: "unusable", error });
}

/** Adds every recorded network, and the attachments of valid containers to those that must stay. */
async function addRecorded(
  ctx: CallContext,
  networks: NetworksToCollect,
  { records, damaged, isValid }: Inventory,
): Promise<CniError[]> {
  return [
    ...(await collectErrors(oldestFirst(records), async (record) =>
      networks.addRecord(record, isValid(record)),
    )),
    ...(await collectErrors(damaged.filter(isValid), (record) => addByPlan(ctx, networks, record))),
  ];
}

/** A network is collected with its newest configuration, which is the one that is added last. */
function oldestFirst(records: readonly AttachmentRecord[]): AttachmentRecord[] {
  return records.toSorted((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/** @throws CniError when there is no usable plan either; then no list can be complete */
async function addByPlan(
  ctx: CallContext,
  networks: NetworksToCollect,
  damaged: DamagedRecord,
): Promise<void> {
  const plan = await loadStored(() => ctx.deps.records.loadPlan(damaged));
  if (plan.state === "usable") return networks.addPlan(damaged.containerId, plan.value);
  networks.markIncomplete();
  if (plan.state === "unusable") throw plan.error;
  throw new CniError(CniErrorCode.DecodingFailure, damaged.reason);
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

async function collectNetworks(
  ctx: CallContext,
  networks: readonly CompleteNetwork[],
): Promise<CniError[]> {
  const errors: CniError[] = [];
  for (const { list, displayName, searchPath, valid } of networks) {
    const run = ctx.delegateRunner(displayName);
    const options = { searchPath, timeoutMs: ctx.config.delegateTimeoutMs, run };
    const failures = await gcNetwork(list, valid, options);
    errors.push(...failures.map(asCniError));
  }
  return errors;
}
