import { ipamType } from "#cni/conf/plugin-conf.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import { type AttachmentPlan, type NetworksToPlan, planNetworks } from "./plan-attachments.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { requirePlugins } from "./plugins/find-plugins.ts";
import { delegateSearchPath } from "./plugins/search-path.ts";
import { attemptAll, type PlanContext, type PlanProblem } from "./problems.ts";
import type { SandboxNetwork } from "./record-size.ts";
import { lookUpsOf } from "./requested-networks.ts";

/** What further networks are planned for. */
interface FurtherNetworks {
  readonly request: NetworksToPlan["request"];
  readonly pod: Pod;
  /** The networks that stay. */
  readonly earlier: readonly RecordedAttachment[];
  readonly selections: readonly NetworkSelection[];
}

/** Plans networks for a running sandbox, by the rules of an ADD for all that it then has. */
export async function planFurther(
  ctx: PlanContext & { readonly problems: PlanProblem[] },
  { request, pod, earlier, selections }: FurtherNetworks,
): Promise<AttachmentPlan> {
  const { config, problems } = ctx;
  const networks = await attemptAll(ctx, lookUpsOf(ctx, pod, selections));
  // Without its device, a network would be attached to another one or to none.
  const strict = { ...ctx, config: { ...config, strictness: "standard" as const } };
  const options = { request, pod, earlier: earlier.map(recordedNetwork) };
  const plan = await planNetworks(strict, options, networks);
  // The runtime's DEL looks in these directories, too.
  const searchPath = delegateSearchPath(config, request.path);
  if (problems.length === 0) await requirePlugins(ctx, networks.map(withIpam), searchPath);
  return plan;
}

/**
 * With its IPAM plugins as further plugins: their absence would be found when the former network is
 * gone. The default network's need not be executables (`azure-cns`).
 */
function withIpam(network: ResolvedNetwork): ResolvedNetwork {
  const { plugins } = network.list;
  const types = plugins.flatMap((plugin) => ipamType(plugin.raw) ?? []);
  const ipams = types.map((type) => ({ type, capabilities: {}, raw: { type } }));
  return { ...network, list: { ...network.list, plugins: [...plugins, ...ipams] } };
}

/** A recorded attachment as it was planned. @throws CniError 7 */
function recordedNetwork(recorded: RecordedAttachment): SandboxNetwork {
  const { result: raw, ignoredRequests } = recorded;
  const selection =
    recorded.selection && ({ ...recorded.selection, position: 0 } as JsonObject & NetworkSelection);
  const planned = omitUndefined({ ...recorded, selection, list: recordedList(recorded) });
  return omitUndefined({ planned, raw, ignoredRequests });
}
