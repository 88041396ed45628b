import { enabledCapabilities } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { parseResult } from "#cni/result/parse.ts";
import { extendedPath } from "#cni/runtime/delegate-calls.ts";
import { missingLinks } from "#engine/add/named-links.ts";
import { planFurther } from "#engine/plan/further-networks.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Addition, NetworkChanges } from "./changes.ts";
import type { HotPlugProblem } from "./reports/conditions.ts";
import type { LockedSandbox } from "./running-sandboxes.ts";

/** What an edit attaches, if it breaks no rule. */
interface ChangePlan {
  /** In the order of the annotation. */
  readonly attachments: readonly PlannedAttachment[];
  /** The size of the record with them, without their results. */
  readonly recordBytes: number;
  /** Why nothing is changed. */
  readonly problems: readonly HotPlugProblem[];
}

type ToPlan = Pick<NetworkChanges, "removals" | "additions">;

/**
 * Plans an edit of a running pod before its first change, with the rules of an ADD for all its
 * networks. An edit that breaks one changes nothing.
 */
export async function planChanges(
  { ctx, pod, links, runtimePath }: LockedSandbox,
  record: AttachmentRecord,
  changes: ToPlan,
): Promise<ChangePlan> {
  const { additions, removals } = changes;
  const problems: PlanProblem[] = defaultRouteProblems(changes);
  if (additions.length === 0) return { attachments: [], recordBytes: 0, problems };
  const selections = additions.map(withKeptName);
  const [{ cniArgs, searchPath }] = record.attachments as readonly [RecordedAttachment];
  const path = extendedPath(searchPath, runtimePath);
  const existingInterfaces = async () => namesTaken(links, removals, selections);
  const request = { ...record, cniArgs, path, existingInterfaces };
  const earlier = record.attachments.filter((each) => !removals.includes(each));
  const planning = { ...ctx, problems };
  const wanted = { request, pod, earlier, selections };
  const { attachments, recordBytes } = await planFurther(planning, wanted);
  if (problems.length === 0) problems.push(...(await missingLinks(ctx, attachments)));
  if (problems.length > 0)
    return { attachments: [], recordBytes, problems: problems.map(withInterface(selections)) };
  const additionOf = new Map(selections.map((each, index) => [each, additions[index]]));
  const asAdded = (planned: PlannedAttachment): PlannedAttachment => {
    const addition = planned.selection && additionOf.get(planned.selection);
    return addition === undefined ? planned : withAddition(planned, addition);
  };
  return { attachments: attachments.map(asAdded), recordBytes, problems };
}

/** What is attached again keeps its interface and device, although no element names them. */
function withKeptName({ selection, renewed, isFormer }: Addition): Addition["selection"] {
  const formerDevice = renewed?.device?.id ?? (isFormer ? "" : undefined);
  return omitUndefined({ ...selection, formerDevice, ...(renewed && { ifName: renewed.ifName }) });
}

/** The names of interfaces that stay. What could not be detached may be there for long. */
function namesTaken(
  links: ReadonlySet<string>,
  removals: readonly RecordedAttachment[],
  wanted: readonly Addition["selection"][],
): ReadonlySet<string> {
  const requested = new Set(wanted.map(({ ifName }) => ifName));
  const stuck = removals.filter(({ state, ifName }) => state === "owed" && !requested.has(ifName));
  return links.difference(namesOf(removals)).union(namesOf(stuck));
}

function namesOf(attachments: readonly RecordedAttachment[]): ReadonlySet<string> {
  return new Set(attachments.map(({ ifName }) => ifName));
}

/** The problems with the interfaces of their elements. */
function withInterface(
  wanted: readonly Addition["selection"][],
): (problem: PlanProblem) => HotPlugProblem {
  return (problem) => {
    const { network } = problem;
    const own = wanted.find(({ namespace, name }) => `${namespace}/${name}` === network);
    return { ifName: own?.ifName, ...problem };
  };
}

/** A planned network with the element as the annotation has it, and with kept addresses. */
function withAddition(
  planned: PlannedAttachment,
  { selection, renewed, deviceCount = planned.deviceCount }: Addition,
): PlannedAttachment {
  return withAddresses(omitUndefined({ ...planned, selection, deviceCount }), renewed);
}

/** Asks for the addresses of an attachment, unless its element or the network's plugins decide. */
function withAddresses(
  planned: PlannedAttachment,
  from: RecordedAttachment | undefined,
): PlannedAttachment {
  const { list, selection, capabilityArgs } = planned;
  const isAsked = selection?.ips !== undefined || !enabledCapabilities(list).has("ips");
  if (from === undefined || isAsked) return planned;
  const { ips } = parseResult(from.result, { fallbackVersion: list.cniVersion });
  if (ips.length === 0) return planned;
  const addresses = ips.map(({ address }) => address);
  return { ...planned, capabilityArgs: { ...capabilityArgs, ips: addresses } };
}

/** The kubelet's probes and the pod's connections use the present default route. */
function defaultRouteProblems({ removals, additions }: ToPlan): HotPlugProblem[] {
  const lost = removals.filter((each) => each.defaultRoute !== undefined);
  if (lost.length > 0) return lost.map(routeLost);
  return additions.flatMap(({ selection: { namespace, name, defaultRoute } }) => {
    if (defaultRoute === undefined) return [];
    const message =
      "a running pod keeps its default route; remove default-route from the element, or create the pod again";
    return { network: `${namespace}/${name}`, error: new CniError("InvalidRequest", message) };
  });
}

function routeLost({ displayName: network, ifName }: RecordedAttachment): HotPlugProblem {
  const message = `the pod's default route is on ${ifName}, which a running pod keeps; undo the edit, or create the pod again`;
  return { network, ifName, error: new CniError("InvalidRequest", message) };
}
