import { gcNetwork } from "#cni/chain.ts";
import type { NetConfList } from "#cni/conf.ts";
import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import type { GcRequest } from "#cni/plugin-request.ts";
import { defaultNetwork } from "./default-network.ts";
import type { CallContext } from "./deps.ts";
import { detachRecord } from "./detach.ts";
import { recordedList } from "./planned.ts";
import { HostGoneError } from "./ports.ts";
import type { AttachmentRecord } from "./record.ts";

interface ValidAttachment {
  readonly containerID: string;
  readonly ifname: string;
}

/** A network to collect in, with every attachment that it may still have. */
interface NetworkToCollect {
  readonly list: NetConfList;
  readonly displayName: string;
  readonly searchPath: readonly string[];
  readonly valid: ValidAttachment[];
}

/**
 * GC. The runtime knows only (containerID, its own interface), so an attachment is valid when its
 * container is. Every other record is torn down; then each network that was ever recorded, and
 * the default network, collects with its own complete list. Errors do not stop it.
 *
 * The default network's list holds the runtime's attachments as well: a pod that was attached
 * before Plexus came has no record and must not be collected. Without a list from the runtime (a
 * null or empty one says that nothing is valid) we cannot know of those pods: then no record is
 * torn down and the default network is passed over.
 * @throws CniError with every failure
 */
export async function gc(ctx: CallContext, request: GcRequest): Promise<void> {
  const { records, damaged } = await ctx.deps.records.list();
  const errors = damaged.map((d) => new CniError(CniErrorCode.DecodingFailure, d.reason));
  const fromRuntime = request.validAttachments.kind === "list" ? request.validAttachments.items : undefined;
  const containers = new Set(fromRuntime?.map((attachment) => attachment.containerID));
  const isValid = (record: AttachmentRecord): boolean =>
    fromRuntime === undefined || containers.has(record.containerId);
  for (const record of records) {
    if (!isValid(record)) await collect(errors, () => detachRecord(ctx, record, record.netns));
  }
  const networks = recordedNetworks(records, isValid);
  if (fromRuntime !== undefined) {
    await collect(errors, () => addDefaultNetwork(ctx, { networks, request, fromRuntime }));
  }
  for (const network of networks.values()) await collectNetwork(ctx, { network, errors });
  if (errors.length > 0) throw joined(errors);
}

async function collectNetwork(
  ctx: CallContext,
  work: { network: NetworkToCollect; errors: CniError[] },
): Promise<void> {
  const { list, displayName, searchPath, valid } = work.network;
  const options = { searchPath, timeoutMs: ctx.config.delegateTimeoutMs, run: ctx.run(displayName) };
  const failures = await gcNetwork(list, valid, options);
  work.errors.push(...failures.map(asCniError));
}

/** By CNI network name, for that is what plugins keep their state by; the newest configuration of a name counts. */
function recordedNetworks(
  records: readonly AttachmentRecord[],
  isValid: (record: AttachmentRecord) => boolean,
): Map<string, NetworkToCollect> {
  const networks = new Map<string, NetworkToCollect>();
  for (const record of records.toSorted((a, b) => a.createdAt.localeCompare(b.createdAt))) {
    for (const attachment of record.attachments) {
      const list = recordedList(attachment);
      const valid = networks.get(list.name)?.valid ?? [];
      if (isValid(record)) valid.push({ containerID: record.containerId, ifname: attachment.ifName });
      const { displayName, searchPath } = attachment;
      networks.set(list.name, { list, displayName, searchPath, valid });
    }
  }
  return networks;
}

async function addDefaultNetwork(
  ctx: CallContext,
  into: {
    networks: Map<string, NetworkToCollect>;
    request: GcRequest;
    fromRuntime: readonly ValidAttachment[];
  },
): Promise<void> {
  const { list, displayName } = await defaultNetwork(ctx, {});
  const { binDir } = ctx.config;
  const known = into.networks.get(list.name)?.valid ?? [];
  const missing = into.fromRuntime.filter(
    (a) => !known.some((k) => k.containerID === a.containerID && k.ifname === a.ifname),
  );
  into.networks.set(list.name, {
    list,
    displayName,
    searchPath: [...(binDir === undefined ? [] : [binDir]), ...into.request.path],
    valid: [...known, ...missing],
  });
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
