import { mergeCniArgs } from "#cni/args.ts";
import { toJson } from "#cni/conf/conf.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { configuredNetworks } from "#engine/plan/default-network.ts";
import { assignInterfaceNames } from "#engine/plan/interface-names.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { requestedNetworksForDel } from "#engine/plan/requested-networks.ts";
import { delegateSearchPath } from "#engine/plan/search-path.ts";
import type { Pod } from "#engine/ports.ts";
import { HostGoneError } from "#engine/ports.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { ForeignSandbox } from "./foreign-sandbox.ts";

/** A sandbox of which nothing is left but what is in its namespace, and what its pod asks for. */
export interface LostSandbox {
  readonly pod: Pod;
  readonly attachments: readonly RecordedAttachment[];
}

/**
 * The attachments that a sandbox has by today's annotation and definitions, which may have been others when
 * it was attached: the last resort where record and plan are lost. Only where something says that
 * there are any: the files were damaged, or the namespace has an interface besides the default
 * network's. The DEL that follows a failed ADD finds neither.
 * @returns undefined when there is nothing to go by
 */
export async function attachmentsByAnnotation(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  { wasDamaged }: { readonly wasDamaged: boolean },
): Promise<LostSandbox | undefined> {
  const identity = podIdentity(sandbox.cniArgs);
  if (identity === undefined || ctx.deps.source === undefined) return undefined;
  const names = await furtherInterfaces(ctx, sandbox);
  if (!wasDamaged && names.size === 0) return undefined;
  try {
    const pod = await ctx.deps.source.getPod(identity, { signal: ctx.signal });
    if (pod === undefined) return undefined;
    const all = await attachmentsOf(ctx, sandbox, pod);
    const attachments = all.filter(
      ({ isDefault, ifName }) => isDefault || wasDamaged || names.has(ifName),
    );
    return attachments.some(({ isDefault }) => !isDefault) ? { pod, attachments } : undefined;
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    ctx.logger.warn({ err: error }, "the networks of the pod cannot be looked up");
    return undefined;
  }
}

/** The interfaces of the sandbox besides loopback and the default network's; none where that cannot be found out. */
async function furtherInterfaces(
  ctx: CallContext,
  { netns, ifName }: ForeignSandbox,
): Promise<Set<string>> {
  if (netns === "") return new Set();
  try {
    const names = (await sandboxLinks(ctx, netns)).map(({ name }) => name);
    return new Set(names.filter((name) => name !== "lo" && name !== ifName));
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return new Set();
  }
}

async function attachmentsOf(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  pod: Pod,
): Promise<RecordedAttachment[]> {
  const { namespace: podNamespace } = pod;
  const configured = await configuredNetworks(ctx, { runtimeConfig: {}, podNamespace });
  const networks = [...configured, ...(await requestedNetworksForDel(ctx, pod))];
  const names = assignInterfaceNames(networks, {
    runtimeIfName: sandbox.ifName,
    existing: new Set(),
  });
  const searchPath = delegateSearchPath(ctx.config, sandbox.path);
  return networks.map((network: ResolvedNetwork, i) => ({
    displayName: network.displayName,
    isDefault: network.isDefault,
    ifName: names[i] ?? "",
    state: "attempted",
    conf: toJson(network.list),
    cniArgs: mergeCniArgs(sandbox.cniArgs),
    capabilityArgs: network.capabilityArgs,
    searchPath,
  }));
}
