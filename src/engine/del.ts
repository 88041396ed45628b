import { delNetwork } from "#cni/chain.ts";
import { CniError } from "#cni/error.ts";
import type { DelRequest } from "#cni/plugin-request.ts";
import { defaultNetwork } from "./default-network.ts";
import type { CallContext } from "./deps.ts";
import { detachRecord, usableNetns } from "./detach.ts";
import { runtimeConf } from "./planned.ts";
import { mergeCniArgs } from "#cni/args.ts";
import { podIdentity } from "./pod.ts";

/**
 * DEL: detaches what the record says, never what annotation or definition say today. Nothing is
 * asked of the API.
 *
 * Without a record the default network alone is told, from today's configuration: a pod that was
 * attached before Plexus came to this node has no record, and its address must not leak. Plugins
 * take a DEL of what they do not know as success (CNI 1.1.0 §4 "DEL").
 * @throws CniError when something could not be detached; it stays recorded and can be tried again
 */
export async function del(ctx: CallContext, request: DelRequest): Promise<void> {
  const { records, publisher } = ctx.deps;
  const record = await ctx.trace.phase("record", () => records.load(request));
  if (record === undefined) await delUnrecorded(ctx, request);
  else await detachRecord(ctx, record, request.netns);
  const pod = record?.pod ?? podIdentity(request.cniArgs);
  if (pod !== undefined) await publisher.withdraw(pod);
}

async function delUnrecorded(ctx: CallContext, request: DelRequest): Promise<void> {
  const network = await resolveDefault(ctx);
  if (network === undefined) return;
  const searchPath = [...(ctx.config.binDir === undefined ? [] : [ctx.config.binDir]), ...request.path];
  const attachment = {
    ifName: request.ifName,
    cniArgs: mergeCniArgs(request.cniArgs),
    capabilityArgs: network.capabilityArgs,
    searchPath,
  };
  const sandbox = {
    containerId: request.containerId,
    netns: await usableNetns(ctx, request.netns),
  };
  const rt = runtimeConf(sandbox, attachment, ctx.config.delegateTimeoutMs);
  await delNetwork(network.list, rt, { run: ctx.run(network.displayName) });
}

/** A default network that cannot be resolved cannot have attached anything either that we could release. */
async function resolveDefault(
  ctx: CallContext,
): Promise<Awaited<ReturnType<typeof defaultNetwork>> | undefined> {
  try {
    return await defaultNetwork(ctx, {});
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    ctx.logger.warn({ err: error }, "no record, and no default network to tell of the DEL");
    return undefined;
  }
}
