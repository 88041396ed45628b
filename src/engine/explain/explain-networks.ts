import { asCniError, type CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { configuredNetworks } from "#engine/plan/default-network.ts";
import { pluginProblems } from "#engine/plan/find-plugins.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { throwProblems } from "#engine/plan/problems.ts";
import { checkRepeatedNetworks } from "#engine/plan/repeated-networks.ts";
import { defaultOverride, resolveSelection } from "#engine/plan/requested-networks.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { networksAnnotation, parseNetworkSelections } from "#npwg/selection/selection.ts";
import { SelectionError } from "#npwg/selection/selection-error.ts";
import type { ExplainedNetwork } from "./explanation.ts";

/** A pod's networks by today's annotation and definitions. */
export interface ExplainedNetworks {
  readonly networks: readonly ExplainedNetwork[];
  readonly annotationError?: string;
}

/**
 * Goes through what an ADD would attach now, network by network, without stopping at what is wrong, and
 * puts beside each what the record says is attached. Never throws for what is wrong with the pod.
 */
export async function explainNetworks(
  ctx: CallContext,
  { pod, record, searchPath, isConfKnown }: ExplainInput,
): Promise<ExplainedNetworks> {
  const { clusterNetwork, delegates } = ctx.config;
  const isDefaultKnown = isConfKnown || clusterNetwork !== undefined || delegates.length > 0;
  const configured = isDefaultKnown
    ? await attempt("default network", () => configuredFor(ctx, pod))
    : recordedDefault(record);
  const requested = await requestedBy(ctx, pod);
  const all = [...configured, ...requested.networks];
  const problems = await problemsOf(ctx, all, searchPath);
  const attached = new Map(record?.attachments.map((each) => [each.displayName, each]));
  return omitUndefined({
    networks: all.map((each, i) => explained(each, problems[i], attached)),
    annotationError: requested.annotationError,
  });
}

/** What a pod's networks are explained from. */
interface ExplainInput {
  readonly pod: Pod;
  readonly record: AttachmentRecord | undefined;
  readonly searchPath: readonly string[];
  /** Whether plexusd writes the runtime's conf; else the default network may be one that only calls name. */
  readonly isConfKnown: boolean;
}

/** As an ADD has them: the default network may be another one for this pod. */
async function configuredFor(ctx: CallContext, pod: Pod): Promise<readonly ResolvedNetwork[]> {
  const podNamespace = pod.namespace;
  const [first, ...others] = await configuredNetworks(ctx, { runtimeConfig: {}, podNamespace });
  const network = (await defaultOverride(ctx, pod)) ?? first;
  return network === undefined ? others : [network, ...others];
}

/** A network that was looked up, or why that failed. */
type LookedUp =
  | { readonly name: string; readonly network: ResolvedNetwork }
  | { readonly name: string; readonly isDefault: boolean; readonly problem?: CniError };

/** The default network as it was attached, where only the runtime's calls name it. */
function recordedDefault(record: AttachmentRecord | undefined): LookedUp[] {
  const found = record?.attachments.find(({ isDefault }) => isDefault);
  return found === undefined ? [] : [{ name: found.displayName, isDefault: true }];
}

async function attempt(
  name: string,
  lookUp: () => Promise<readonly ResolvedNetwork[]>,
  isDefault = true,
): Promise<LookedUp[]> {
  try {
    return (await lookUp()).map((network) => ({ name: network.displayName, network }));
  } catch (error) {
    return [{ name, isDefault, problem: asCniError(error) }];
  }
}

async function requestedBy(
  ctx: CallContext,
  pod: Pod,
): Promise<{ networks: LookedUp[]; annotationError?: string }> {
  const annotation = pod.annotations[networksAnnotation] ?? "";
  const networks: LookedUp[] = [];
  try {
    const selections = parseNetworkSelections(annotation, { podNamespace: pod.namespace });
    for (const selection of selections) {
      const name = `${selection.namespace}/${selection.name}`;
      const lookUp = async () => [await resolveSelection(ctx, pod, selection)];
      networks.push(...(await attempt(name, lookUp, false)));
    }
    return { networks };
  } catch (error) {
    const annotationError = errorMessage(error);
    if (error instanceof SelectionError) return { networks, annotationError };
    networks.push({ name: "annotation", isDefault: false, problem: asCniError(error) });
    return { networks };
  }
}

/** What is wrong with networks that could be looked up: a plugin that is not there, one network twice. */
async function problemsOf(
  ctx: CallContext,
  all: readonly LookedUp[],
  searchPath: readonly string[],
): Promise<(CniError | undefined)[]> {
  const networks = all.flatMap((each) => ("network" in each ? [each.network] : []));
  const repeated = errorOf(() => checkRepeatedNetworks(networks));
  return Promise.all(
    all.map(async (each) => {
      if (!("network" in each)) return each.problem;
      const { network } = each;
      try {
        throwProblems(await pluginProblems(ctx, [network], searchPath));
      } catch (error) {
        return asCniError(error);
      }
      return repeated?.message.includes(network.displayName) === true ? repeated : undefined;
    }),
  );
}

function errorOf(check: () => void): CniError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    return asCniError(error);
  }
}

function explained(
  each: LookedUp,
  error: CniError | undefined,
  attached: ReadonlyMap<string, RecordedAttachment>,
): ExplainedNetwork {
  const found = attached.get(each.name);
  const isAttached = found?.state === "attached";
  return omitUndefined({
    network: each.name,
    isDefault: "network" in each ? each.network.isDefault : each.isDefault,
    plugins: "network" in each ? each.network.list.plugins.map(({ type }) => type) : undefined,
    ifName: isAttached ? found.ifName : undefined,
    addresses: isAttached ? addressesOf(found) : undefined,
    device: isAttached ? found.device?.id : undefined,
    ignored: isAttached ? found.ignoredRequests : undefined,
    problem: error?.message,
    reason: error?.reason,
  });
}

function addressesOf({ result }: RecordedAttachment): string[] {
  const ips = result?.ips;
  if (!Array.isArray(ips)) return [];
  return ips.flatMap((ip) =>
    isJsonObject(ip) && typeof ip.address === "string" ? [ip.address] : [],
  );
}
