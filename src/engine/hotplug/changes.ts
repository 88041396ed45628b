import { isDeepStrictEqual } from "node:util";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import { type NetworkSelection, selectionElement } from "#npwg/selection/network-selection.ts";

/** What makes a running pod's networks those of its annotation. */
export interface NetworkChanges {
  /** Last attached first. */
  readonly removals: readonly RecordedAttachment[];
  /** In the order of the annotation. */
  readonly additions: readonly Addition[];
}

/** An element to attach; or an attachment that is missing of those that it had. */
export interface Addition {
  readonly selection: NetworkSelection;
  /** The removal that the same element requested: its interface and addresses are kept. */
  readonly renewed?: RecordedAttachment | undefined;
  /** Whether its element was attached: then the record says how many attachments it has. */
  readonly isFormer?: boolean;
  /** How many attachments the element had, if several. */
  readonly deviceCount?: number | undefined;
}

interface ChangeOptions {
  /** The networks (`namespace/name`) that the pod has by configuration. */
  readonly configured: readonly string[];
  /** The one interface that is removed and added, although its element is the same. */
  readonly refreshed?: string | undefined;
}

/**
 * Compares the annotation with the record, never with network-status, which users can change.
 * An attachment stays if it is as an element requests; texts and orders do not matter. What is not
 * attached is removed, and added again if it is still requested.
 *
 * Only attachments whose record has an element can be removed: the pod has all others by
 * configuration, perhaps a former one. They count for elements with their network, and those of the
 * present configuration only if the element requests nothing else.
 */
export function networkChanges(
  { attachments }: Pick<AttachmentRecord, "attachments">,
  selections: readonly NetworkSelection[],
  { configured, refreshed }: ChangeOptions,
): NetworkChanges {
  const requested = attachments.filter(({ selection }) => selection !== undefined);
  const intact = requested.filter((each) => each.state === "attached" && each.ifName !== refreshed);
  const others = attachments.filter(({ selection, isDefault }) => !(selection || isDefault));
  const names = new Set(selections.map(({ ifName }) => ifName));
  const isFree = ({ ifName }: RecordedAttachment): boolean => !names.has(ifName);
  const isFit: Fit = (selection, each) =>
    isAsRequested(each, selection) || isCounted(selection, each, configured);
  // Of several attachments of an element, the first stands for all.
  const mayStay = [...intact, ...others].filter((each) => !each.deviceCount || isFree(each));
  const groups = Map.groupBy(mayStay, elementOf);
  const groupOf = (one?: RecordedAttachment) => (one && groups.get(elementOf(one))) ?? [];
  const firsts = [...groups.values()].flatMap(([first]) => first ?? []);
  const kept = paired(selections, firsts, [
    (selection, each) => selection.ifName !== undefined && isFit(selection, each),
    (selection, each) => isFree(each) && isSameElement(each, selection),
    (selection, each) => isFree(each) && isFit(selection, each),
  ]);
  const networks = [...selections.map(networkName), ...others.map((each) => each.displayName)];
  // Every pod has the configured networks, perhaps without an element.
  const isImplied = ({ state, displayName: name }: RecordedAttachment): boolean =>
    state === "attached" && configured.includes(name) && !networks.includes(name);
  const stay = new Set([...[...kept.values()].flatMap(groupOf), ...requested.filter(isImplied)]);
  const isPart = (ifName?: string): boolean => refreshed === undefined || ifName === refreshed;
  const going = requested.filter((each) => !stay.has(each) && isPart(each.ifName)).toReversed();
  const renewed = (all: readonly NetworkSelection[]) =>
    paired(all, going.toReversed(), [
      (selection, each) => isFree(each) && isSameElement(each, selection),
      (selection, each) =>
        (selection.ifName !== undefined || isFree(each)) && isAsRequested(each, selection),
    ]);
  const former = renewed(selections.filter((each) => !kept.has(each)));
  // The record says how many attachments an element had. Of a new one, its definition decides.
  const added = selections.flatMap((selection): Addition[] => {
    const one = kept.get(selection) ?? former.get(selection);
    if (one === undefined) return [{ selection }];
    const { deviceCount } = one;
    const missing = (deviceCount ?? 1) - groupOf(kept.get(selection)).length;
    const each = () => ({ selection: { ...selection }, isFormer: true, deviceCount });
    return Array.from({ length: missing }, each);
  });
  const renewals = renewed(added.map(({ selection }) => selection));
  const additions = added
    .map((each) => ({ ...each, renewed: renewals.get(each.selection) }))
    .filter((each) => isPart(each.renewed?.ifName));
  // What no element requests any more cannot be refreshed.
  const removals = refreshed === undefined || additions.length > 0 ? going : [];
  return { removals, additions };
}

/** Equal for the attachments of one element. */
function elementOf(one: RecordedAttachment): string {
  const { deviceCount, displayName, selection, ifName } = one;
  return deviceCount === undefined ? ifName : JSON.stringify([deviceCount, displayName, selection]);
}

/** Whether an attachment without an element is what an element requests. */
function isCounted(
  selection: NetworkSelection,
  { displayName, ifName, selection: own }: RecordedAttachment,
  configured: readonly string[],
): boolean {
  const isName = selection.ifName === undefined || selection.ifName === ifName;
  const isSame = own === undefined && displayName === networkName(selection) && isName;
  return isSame && (isPlain(selection) || !configured.includes(displayName));
}

/**
 * Whether an attachment is as an element requests it: of its network and settings, on its
 * interface. An element without one may have any generated name.
 */
function isAsRequested(
  { ifName, selection: own = {} }: RecordedAttachment,
  selection: NetworkSelection,
): boolean {
  const isName =
    selection.ifName === undefined ? /^net\d+$/.test(ifName) : selection.ifName === ifName;
  return isName && isDeepStrictEqual(withoutName(own), withoutName(selectionElement(selection)));
}

type Fit = (selection: NetworkSelection, attachment: RecordedAttachment) => boolean;

/** Gives elements attachments that fit them, each to one; a closer one of a later element first. */
function paired(
  selections: readonly NetworkSelection[],
  attachments: readonly RecordedAttachment[],
  fits: readonly Fit[],
): ReadonlyMap<NetworkSelection, RecordedAttachment> {
  const free = new Set(attachments);
  const pairs = new Map<NetworkSelection, RecordedAttachment>();
  for (const isFit of fits) {
    for (const selection of selections) {
      if (pairs.has(selection)) continue;
      const found = [...free].find((each) => isFit(selection, each));
      if (found === undefined) continue;
      pairs.set(selection, found);
      free.delete(found);
    }
  }
  return pairs;
}

function isSameElement(
  { selection: own }: RecordedAttachment,
  selection: NetworkSelection,
): boolean {
  return isDeepStrictEqual(own, selectionElement(selection));
}

/** Whether an element requests nothing but a network, and perhaps the name of its interface. */
function isPlain(selection: NetworkSelection): boolean {
  const { namespace: _, name: _name, ...further } = withoutName(selectionElement(selection));
  return Object.keys(further).length === 0;
}

function withoutName({ ifName: _, ...element }: JsonObject): JsonObject {
  return element;
}

function networkName({ namespace, name }: NetworkSelection): string {
  return `${namespace}/${name}`;
}
