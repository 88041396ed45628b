import { isDeepStrictEqual } from "node:util";
import { recordedSelection } from "#engine/plan/recorded-network.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import { type NetworkSelection, selectionElement } from "#npwg/selection/network-selection.ts";

/** What makes a running pod's networks those of its annotation. */
export interface NetworkChanges {
  /** Last attached first. */
  readonly removals: readonly RecordedAttachment[];
  /** In the order of the annotation. */
  readonly additions: readonly Addition[];
  /** Attachments of definitions that neither the annotation nor the configuration requests any more. */
  readonly unknown: readonly RecordedAttachment[];
}

/** An element to attach. */
export interface Addition {
  readonly selection: NetworkSelection;
  /** The removal whose place it takes: its interface, or else its network. */
  readonly replaced?: RecordedAttachment | undefined;
  /** The removal that it moves to the place of another one. */
  readonly moved?: RecordedAttachment | undefined;
}

interface ChangeOptions {
  /** The networks (`namespace/name`) that the pod has by configuration. */
  readonly configured: readonly string[];
  /** An interface that is removed and added although its element is the same. */
  readonly refreshed?: string | undefined;
}

/**
 * Compares the annotation with the record, never with network-status, which users can change.
 * An attachment stays if it is as an element requests; texts and orders do not matter. What is not
 * attached is removed, and added again if it is still requested.
 *
 * Only attachments whose record has an element can be removed: all others are configured, or of
 * another release. They count for elements with their network, configured ones only if the element
 * requests nothing else.
 */
export function networkChanges(
  { attachments }: Pick<AttachmentRecord, "attachments">,
  selections: readonly NetworkSelection[],
  { configured, refreshed }: ChangeOptions,
): NetworkChanges {
  const requested = attachments.filter(({ selection }) => selection !== undefined);
  const intact = requested.filter((each) => each.state === "attached" && each.ifName !== refreshed);
  const unrequested = attachments.filter(({ selection }) => selection === undefined);
  const others = unrequested.filter(({ isDefault }) => !isDefault);
  const have = [...unrequested.map((each) => each.displayName), ...selections.map(networkName)];
  const lacking = configured.filter((name) => !have.includes(name));
  const wanted = [...selections, ...impliedElements(lacking, intact, selections)];
  const names = namesIn(wanted);
  const isCounted: Fit = (selection, { displayName, ifName, selection: own }) =>
    own === undefined &&
    displayName === networkName(selection) &&
    (selection.ifName === undefined || selection.ifName === ifName) &&
    (isPlain(selection) || !configured.includes(displayName));
  const mayStay = [...intact, ...others];
  const pairs = paired(wanted, mayStay, [
    (selection, each) => selection.ifName !== undefined && isAsRequested(each, selection),
    (selection, each) => !names.has(each.ifName) && isSameElement(each, selection),
    (selection, each) => !names.has(each.ifName) && isAsRequested(each, selection),
    (selection, each) => selection.ifName !== undefined && isCounted(selection, each),
    isCounted,
  ]);
  const stay = new Set(pairs.values());
  const removals = requested.filter((each) => !stay.has(each)).toReversed();
  const added = wanted.filter((each) => !pairs.has(each));
  const isUnknown = (each: RecordedAttachment): boolean =>
    !stay.has(each) && each.displayName.includes("/") && !configured.includes(each.displayName);
  return { removals, additions: withReplaced(added, removals), unknown: others.filter(isUnknown) };
}

/**
 * Whether an attachment is as an element requests it: of its network and settings, on its
 * interface. An element without one may have any generated name.
 */
export function isAsRequested(
  attachment: Pick<RecordedAttachment, "ifName" | "selection">,
  selection: NetworkSelection,
): boolean {
  const { ifName } = attachment;
  const isName =
    selection.ifName === undefined ? /^net\d+$/.test(ifName) : selection.ifName === ifName;
  return isName && isSameButName(attachment, selection);
}

/**
 * Every pod has the configured networks: an attachment to each stays without its element, on
 * another interface if an element names its own.
 */
function impliedElements(
  lacking: readonly string[],
  intact: readonly RecordedAttachment[],
  selections: readonly NetworkSelection[],
): NetworkSelection[] {
  const names = namesIn(selections);
  return lacking.flatMap((name) => {
    const own = intact.filter(({ displayName }) => displayName === name);
    const last = own.find(({ ifName }) => !names.has(ifName)) ?? own[0];
    const element = last && recordedSelection(last);
    if (element === undefined) return [];
    const { ifName, ...unnamed } = element;
    return names.has(ifName) ? unnamed : element;
  });
}

function namesIn(selections: readonly NetworkSelection[]): ReadonlySet<string | undefined> {
  return new Set(selections.map(({ ifName }) => ifName));
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

/** What an element and the removal whose place it takes have in common, the closest first. */
const closeness: readonly Fit[] = [
  (selection, { ifName }) => selection.ifName === ifName,
  (selection, removal) => isSameElement(removal, selection),
  (selection, removal) => isAsRequested(removal, selection),
  (selection, { displayName, selection: own }) =>
    selection.ifName === own?.ifName && displayName === networkName(selection),
  (selection, { displayName }) => displayName === networkName(selection),
];

/** The elements with the removals whose places they take, each of one. */
function withReplaced(
  added: readonly NetworkSelection[],
  removals: readonly RecordedAttachment[],
): Addition[] {
  const places = paired(added, removals, closeness);
  const sources = paired(added, removals, [
    (selection, each) => places.get(selection) === each && isSameButName(each, selection),
    (selection, each) => isSameButName(each, selection),
  ]);
  return added.map((selection) => {
    const replaced = places.get(selection);
    const source = sources.get(selection);
    return { selection, replaced, moved: source === replaced ? undefined : source };
  });
}

function isSameElement(
  { selection: own }: RecordedAttachment,
  selection: NetworkSelection,
): boolean {
  return isDeepStrictEqual(own, selectionElement(selection));
}

/** Whether an attachment was made for this element, perhaps on another interface. */
function isSameButName(
  { selection: own = {} }: Pick<RecordedAttachment, "selection">,
  selection: NetworkSelection,
): boolean {
  return isDeepStrictEqual(withoutName(own), withoutName(selectionElement(selection)));
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
