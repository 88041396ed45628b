import { asCniError, withoutSubject } from "#cni/error.ts";
import { contextWithoutCall } from "#engine/call/call-context.ts";
import { requirePlugins } from "#engine/plan/plugins/find-plugins.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import { selectedNetwork } from "#engine/plan/requested-networks.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { CallHost, PluginLookup } from "#engine/ports/host.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";
import type { FindingReason } from "#lib/reasons.ts";
import { networkLabel } from "./label.ts";
import { areNeedsKnown, linkProblems, type NeededLink, neededLinks, nodeLinks } from "./links.ts";

const messageMax = 500;

/** The node as it is seen without a call of the container runtime. */
export interface NodeView {
  /** The conf with which the container runtime calls Plexus; empty when it is not known. */
  readonly conf: JsonObject;
  /** Where plugins are looked up: only calls have the container runtime's CNI_PATH. */
  readonly searchPath: readonly string[];
  readonly findPlugin: (type: string) => Promise<PluginLookup>;
  /** Asks the kernel in the node's network namespace. @default its links are not known */
  readonly netlink?: CallHost["netlink"];
}

/** Whether pods of a node can be attached to the network of a definition. */
export interface NetworkOnNode {
  /** `namespace/name` of the definition. */
  readonly network: string;
  readonly usable: boolean;
  /** Why not; absent if it is usable. */
  readonly reason?: FindingReason;
  readonly message?: string;
  /** What it needs of the node; absent where its configuration cannot be used. */
  readonly links?: readonly NeededLink[];
  /** The resource whose devices decide where pods can run. */
  readonly resource?: string;
  /** The label of nodes that have it, if the definition asks for one; never beside `resource`, nor if what it needs is not known. */
  readonly label?: string;
}

/** A context that sees the node, and executes nothing. @throws CniError 7 for an invalid `conf` */
export function nodeContext(deps: EngineDeps, { conf, findPlugin, netlink }: NodeView) {
  const find: CallHost["find"] = (_, types) => Promise.all(types.map(findPlugin));
  return contextWithoutCall(deps, conf, { find, ...(netlink && { netlink }) });
}

/**
 * Which of the known definitions can be used on the node, by the rules of an ADD; sorted by name.
 * @param isLabelled whether to look only at definitions that ask for a label
 * @throws CniError when the links cannot be listed
 */
export async function inventory(
  deps: EngineDeps,
  view: NodeView,
  isLabelled = false,
): Promise<NetworkOnNode[]> {
  const ctx = nodeContext(deps, view);
  const links = await nodeLinks(ctx);
  const { definitions = deps.source } = deps;
  const labels = new Map<string, string | undefined>();
  const networks = new Map<string, Awaited<ReturnType<typeof selectedNetwork>>>();
  const problems: PlanProblem[] = [];
  for (const nad of [...(definitions?.knownNads?.() ?? [])]) {
    const { namespace, name } = nad;
    const [ref, network] = [{ namespace, name }, `${namespace}/${name}`];
    const label = networkLabel(nad);
    if (isLabelled && label === undefined) continue;
    labels.set(network, label);
    // Calls need not wait for a thousand definitions.
    await nextTurn();
    try {
      networks.set(network, await selectedNetwork(ctx, ref, { ...ref, position: 1 }));
    } catch (error) {
      problems.push({ network, error: asCniError(error) });
    }
  }
  const resolved = [...networks.values()];
  const searchPath = delegateSearchPath(ctx.config, view.searchPath);
  await requirePlugins({ ...ctx, problems }, resolved, searchPath);
  for (const network of resolved) {
    await nextTurn();
    problems.push(...linkProblems(network, links));
  }
  const problemsOf = Map.groupBy(problems, ({ network = "" }) => network);
  return [...labels.keys()].toSorted().map((network) => {
    const found = networks.get(network);
    return omitUndefined({
      network,
      ...verdictOn(network, problemsOf.get(network)),
      links: found && neededLinks(found, links),
      resource: found?.resourceName,
      label: found === undefined || areNeedsKnown(found) ? labels.get(network) : undefined,
    });
  });
}

function verdictOn(network: string, problems: readonly PlanProblem[] = []) {
  const [first] = problems;
  if (first === undefined) return { usable: true };
  const texts = problems.map(({ error }) => withoutSubject(error.message, network));
  const message = shortened(texts.join("; "), messageMax);
  return { usable: false, reason: first.error.reason, message };
}
