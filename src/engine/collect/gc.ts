import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import type { GcRequest } from "#cni/plugin/request.ts";
import { gcNetwork } from "#cni/runtime/chain.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import type { CallContext } from "#engine/deps.ts";
import { detachRecord } from "#engine/detach/detach.ts";
import { detachUnrecorded } from "#engine/detach/recover.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { type DamagedRecord, HostGoneError } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { NetworksToCollect, type NetworkToCollect } from "./networks.ts";

/**
 * GC. The runtime knows only (containerID, its own interface), so an attachment is valid when its
 * container is. Every other record is torn down; then each network that was ever recorded, and
 * the default network, collects with its own complete list. Errors do not stop it.
 *
 * The default network's list holds the runtime's attachments as well: a pod that was attached
 * before Plexus came has no record and must not be collected. Without a list from the runtime (a
 * null or empty one says that nothing is valid) we cannot know of those pods: then no record is
 * torn down and default networks are passed over. Where a valid container's record is unusable,
 * its teardown plan says what it has; without that no list is complete and no plugin is called.
 * @throws CniError with every failure
 */
export async function gc(ctx: CallContext, request: GcRequest): Promise<void> {
  const { validAttachments } = request;
  const fromRuntime = validAttachments.kind === "list" ? validAttachments.items : undefined;
  const containers = new Set(fromRuntime?.map((attachment) => attachment.containerID));
  const isValid = ({ containerId }: { containerId: string }): boolean =>
    fromRuntime === undefined || containers.has(containerId);
  const { records, damaged } = await ctx.deps.records.list();
  const errors: CniError[] = [];
  for (const record of records.filter((each) => !isValid(each))) {
    await collect(errors, () => detachRecord(ctx, record, staleNetns(record)));
  }
  for (const stale of damaged.filter((each) => !isValid(each))) {
    await collect(errors, () => recoverStale(ctx, request, stale));
  }
  const networks = new NetworksToCollect();
  for (const record of byAge(records)) {
    await collect(errors, async () => networks.addRecord(record, isValid(record)));
  }
  for (const valid of damaged.filter(isValid)) {
    await collect(errors, () => addByPlan(ctx, networks, valid));
  }
  if (fromRuntime !== undefined) {
    await collect(errors, () => addDefaultNetwork(ctx, request, networks));
  }
  for (const network of networks.complete(fromRuntime))
    await collectNetwork(ctx, { network, errors });
  if (errors.length > 0) throw joined(errors);
}

/** The process of a `/proc` path is gone with its sandbox, and its number may be another's by now. */
function staleNetns({ netns }: AttachmentRecord): string {
  return netns.startsWith("/proc/") ? "" : netns;
}

async function recoverStale(
  ctx: CallContext,
  request: GcRequest,
  { containerId, ifName, reason }: DamagedRecord,
): Promise<void> {
  const sandbox = { containerId, ifName, netns: "", path: request.path, cniArgs: [] };
  await detachUnrecorded(ctx, sandbox, new CniError(CniErrorCode.DecodingFailure, reason));
}

/** @throws CniError when there is no usable plan either; then no list can be complete */
async function addByPlan(
  ctx: CallContext,
  networks: NetworksToCollect,
  damaged: DamagedRecord,
): Promise<void> {
  try {
    const plan = await ctx.deps.records.loadPlan(damaged);
    if (plan !== undefined) return networks.addPlan(damaged.containerId, plan);
  } catch (error) {
    networks.markIncomplete();
    throw error;
  }
  networks.markIncomplete();
  throw new CniError(CniErrorCode.DecodingFailure, damaged.reason);
}

async function addDefaultNetwork(
  ctx: CallContext,
  request: GcRequest,
  networks: NetworksToCollect,
): Promise<void> {
  const { list, displayName } = await defaultNetwork(ctx, {});
  const { binDir } = ctx.config;
  const searchPath = [...(binDir === undefined ? [] : [binDir]), ...request.path];
  networks.add({ list, displayName, searchPath, isDefault: true });
}

async function collectNetwork(
  ctx: CallContext,
  work: { network: NetworkToCollect & { valid: readonly ValidAttachment[] }; errors: CniError[] },
): Promise<void> {
  const { list, displayName, searchPath, valid } = work.network;
  const options = {
    searchPath,
    timeoutMs: ctx.config.delegateTimeoutMs,
    run: ctx.run(displayName),
  };
  const failures = await gcNetwork(list, valid, options);
  work.errors.push(...failures.map(asCniError));
}

/** Oldest first: the newest configuration of a network counts. */
function byAge(records: readonly AttachmentRecord[]): AttachmentRecord[] {
  return records.toSorted((a, b) => a.createdAt.localeCompare(b.createdAt));
}

async function collect(errors: CniError[], step: () => Promise<void>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    errors.push(asCniError(error));
  }
}

function joined(errors: readonly CniError[]): CniError {
  const [first] = errors;
  if (errors.length === 1 && first !== undefined) return first;
  return new CniError(
    CniErrorCode.TeardownIncomplete,
    `garbage collection left ${errors.length} things behind: ${errors.map((e) => e.message).join("; ")}`,
    { cause: new AggregateError(errors) },
  );
}
