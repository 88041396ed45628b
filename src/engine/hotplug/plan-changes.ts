import { isDeepStrictEqual } from "node:util";
import { enabledCapabilities } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { type EarlierNetwork, planNetworks } from "#engine/plan/plan-attachments.ts";
import type { PlannedAttachment, ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { pluginProblems } from "#engine/plan/plugins/find-plugins.ts";
import { extendedPath } from "#engine/plan/plugins/search-path.ts";
import { throwProblems } from "#engine/plan/problems.ts";
import { recordedNetwork } from "#engine/plan/recorded-network.ts";
import { resolveSelection } from "#engine/plan/requested-networks.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import { type Addition, isAsRequested, type NetworkChanges } from "./changes.ts";
import type { HotPlugProblem } from "./reports/problem-texts.ts";
import type { LockedSandbox } from "./running-sandboxes.ts";

/** An element that can be attached, as far as that can be known. */
export interface PlannedAddition extends Addition {
  /** The ways to attach it, the best first. */
  readonly ways: readonly [PlannedAttachment, ...PlannedAttachment[]];
  /** What it replaces as it was, which comes back if none of them works. */
  readonly former?: PlannedAttachment | undefined;
  /** The size of the record with it, without its result. */
  readonly recordBytes: number;
}

/** What an attempt will do. */
export interface ChangePlan {
  /** Last attached first. */
  readonly removals: readonly RecordedAttachment[];
  readonly additions: readonly PlannedAddition[];
  /** Why other elements cannot be attached. */
  readonly problems: readonly HotPlugProblem[];
}

type ToPlan = Pick<NetworkChanges, "removals" | "additions">;

/**
 * Plans all changes of a running sandbox before the first of them, each element by itself, with the
 * rules of an ADD. An attachment that works is removed for an element only if that can be attached;
 * and if an element is wrong, unrequested attachments stay, because it may have meant one.
 */
export async function planChanges(
  sandbox: LockedSandbox,
  record: AttachmentRecord,
  changes: ToPlan,
): Promise<ChangePlan> {
  const planner = new ChangePlanner(sandbox, record, changes);
  // At the same time: the API server may be slow.
  const looked = await Promise.allSettled(changes.additions.map((each) => planner.lookUp(each)));
  const additions: PlannedAddition[] = [];
  const failures: { error: CniError; addition: Addition; isUnknown: boolean }[] = [];
  for (const [i, addition] of changes.additions.entries()) {
    const found = looked[i] as PromiseSettledResult<ResolvedNetwork>;
    const isUnknown = found.status === "rejected";
    try {
      if (isUnknown) throw found.reason;
      additions.push(await planner.plan(addition, found.value));
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      failures.push({ error, addition, isUnknown });
    }
  }
  // What stays where it is cannot be moved; so more may stay.
  for (const { addition } of failures) {
    const moving = additions.find(({ moved }) => moved === addition.replaced);
    if (moving?.moved?.state !== "attached") continue;
    additions.splice(additions.indexOf(moving), 1);
    failures.push({ error: stays(moving.moved), addition: moving, isUnknown: false });
  }
  const isWrong = failures.some(({ error, isUnknown }) => isUnknown || !error.transient);
  const mayStay = (each: RecordedAttachment): boolean => {
    // Else its element would be attached twice.
    if (additions.some(({ replaced, moved }) => replaced === each || moved === each)) return false;
    if (failures.some(({ addition }) => addition.replaced === each)) return isWhole(each);
    const isStuck = isWrong || failures.some(({ addition }) => addition.moved === each);
    return isStuck && each.state === "attached";
  };
  return {
    removals: changes.removals.filter((each) => !mayStay(each)),
    additions,
    problems: failures.map(problemOf),
  };
}

/** Whether a network works, or did until it was detached for its successor. */
function isWhole({ state }: RecordedAttachment): boolean {
  return state === "attached" || state === "detached";
}

class ChangePlanner {
  readonly #ctx: CallContext;
  readonly #sandbox: LockedSandbox;
  readonly #record: AttachmentRecord;
  readonly #changes: ToPlan;
  readonly #earlier: EarlierNetwork[];

  constructor(sandbox: LockedSandbox, record: AttachmentRecord, changes: ToPlan) {
    const { ctx } = sandbox;
    this.#ctx = ctx;
    this.#sandbox = sandbox;
    this.#record = record;
    this.#changes = changes;
    const stay = record.attachments.filter((each) => !changes.removals.includes(each));
    this.#earlier = stay.map((each) => {
      const { result: raw, ignoredRequests } = each;
      return omitUndefined({ planned: recordedNetwork(each, ctx.config), raw, ignoredRequests });
    });
  }

  /** @throws CniError when the pod may not have the network, or it is not known */
  async lookUp({ selection, replaced }: Addition): Promise<ResolvedNetwork> {
    refuseDefaultRoute(selection, replaced);
    return resolveSelection(this.#ctx, this.#sandbox.pod, selection);
  }

  /** @throws CniError when it cannot be attached besides the earlier ones */
  async plan(addition: Addition, network: ResolvedNetwork): Promise<PlannedAddition> {
    const { replaced } = addition;
    const { pod, failedSwaps, runtimePath } = this.#sandbox;
    const { containerId, ifName, attachments } = this.#record;
    const { cniArgs, searchPath } = attachments[0] as RecordedAttachment;
    const path = extendedPath(searchPath, runtimePath);
    const existingInterfaces = async () => this.#namesTaken(addition);
    const request = { containerId, ifName, cniArgs, path, existingInterfaces };
    const options = { request, pod, earlier: this.#earlier, ifName: nameOf(addition) };
    // Without its device, a network would be attached to another one or to none.
    const config = { ...this.#ctx.config, strictness: "standard" as const };
    const strict = { ...this.#ctx, config };
    const { attachments: all, recordBytes } = await planNetworks(strict, options, [network]);
    const [planned] = all as [PlannedAttachment];
    // The runtime's DEL looks in these directories, too.
    throwProblems(await pluginProblems(this.#ctx, all, planned.searchPath));
    failedSwaps.refuse(pod, planned, replaced);
    this.#earlier.push({ planned });
    const former =
      replaced !== undefined && isWhole(replaced)
        ? withAddresses(recordedNetwork(replaced, this.#ctx.config), replaced)
        : undefined;
    return { ...addition, ways: waysOf(planned, addition), former, recordBytes };
  }

  /** The names of interfaces that stay, or that other elements will have. */
  #namesTaken(own: Addition): ReadonlySet<string> {
    const { removals, additions } = this.#changes;
    const wanted = additions.filter((each) => each !== own).flatMap((each) => nameOf(each) ?? []);
    // What is owed may be there for long.
    const isFreed = ({ state, ifName }: RecordedAttachment): boolean =>
      state !== "owed" || additions.some((each) => nameOf(each) === ifName);
    const taken = new Set(this.#sandbox.links);
    for (const each of removals) {
      if (isFreed(each)) taken.delete(each.ifName);
      else taken.add(each.ifName);
    }
    return new Set([...taken, ...wanted]);
  }
}

/** A refreshed network keeps its addresses, if its IPAM takes them. */
function waysOf(
  planned: PlannedAttachment,
  { selection, replaced }: Addition,
): PlannedAddition["ways"] {
  if (replaced === undefined || !isAsRequested(replaced, selection)) return [planned];
  const kept = withAddresses(planned, replaced);
  return kept === planned ? [planned] : [kept, planned];
}

/** The interface that an element requests, or its predecessor's if that did not request it. */
function nameOf({ selection, replaced }: Addition): string | undefined {
  if (selection.ifName !== undefined || replaced === undefined) return selection.ifName;
  const isKept = replaced.selection?.ifName === undefined || isAsRequested(replaced, selection);
  return isKept ? replaced.ifName : undefined;
}

/** Why an element has to wait: the attachment that it moves is where it was. */
export function stays({ displayName, ifName }: RecordedAttachment): CniError {
  const message = `network ${displayName} is still on ${ifName}, so it cannot be moved`;
  return new CniError("TryAgainLater", message);
}

function problemOf({ addition, error }: { addition: Addition; error: CniError }): HotPlugProblem {
  const { namespace, name } = addition.selection;
  return { error, network: `${namespace}/${name}`, ifName: nameOf(addition) };
}

/** The kubelet's probes and the pod's connections use the present route. */
function refuseDefaultRoute(
  { defaultRoute, namespace, name }: NetworkSelection,
  replaced: RecordedAttachment | undefined,
): void {
  if (defaultRoute === undefined || isDeepStrictEqual(replaced?.defaultRoute, defaultRoute)) return;
  throw new CniError(
    "InvalidRequest",
    `network ${namespace}/${name}: a running pod keeps its default route; remove default-route from the element, or create the pod again`,
  );
}

/** A network with the addresses of an attachment, unless its element or its plugins decide. */
function withAddresses(planned: PlannedAttachment, from: RecordedAttachment): PlannedAttachment {
  const { list, selection, capabilityArgs } = planned;
  const isAsked = selection?.ips !== undefined || !enabledCapabilities(list).has("ips");
  if (isAsked) return planned;
  const { ips } = parseResult(from.result, { fallbackVersion: list.cniVersion });
  if (ips.length === 0) return planned;
  const addresses = ips.map(({ address }) => address);
  return { ...planned, capabilityArgs: { ...capabilityArgs, ips: addresses } };
}
