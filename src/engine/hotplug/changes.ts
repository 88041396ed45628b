import { isDeepStrictEqual } from "node:util";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { type NetworkSelection, selectionElement } from "#npwg/selection/network-selection.ts";

/** What makes a running pod's networks those of its annotation. */
export interface NetworkChanges {
  /** Last attached first. */
  readonly removals: readonly RecordedAttachment[];
  /** In the order of the annotation. */
  readonly additions: readonly Addition[];
  /** Those of definitions that neither the annotation nor the configuration requests any more. */
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
 * An attachment stays if an element requests exactly what it was made for: texts and orders do not
 * matter, and elements without an interface keep theirs. What is not attached is removed, and added
 * again if it is still requested.
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
  const isIntact = ({ state, ifName }: RecordedAttachment): boolean =>
    state === "attached" && ifName !== refreshed;
  const intact = new Set(requested.filter(isIntact));
  const unrequested = attachments.filter(({ selection }) => selection === undefined);
  const others = new Set(unrequested.filter(({ isDefault }) => !isDefault));
  const stay = new Set<RecordedAttachment>();
  const added = selections.filter((selection) => {
    const element = selectionElement(selection);
    const found =
      [...intact].find((each) => isDeepStrictEqual(each.selection, element)) ??
      [...others].find(
        (each) =>
          mayBeFor(each, selection) &&
          (isPlain(selection) || !configured.includes(each.displayName)),
      );
    if (found === undefined) return true;
    intact.delete(found);
    others.delete(found);
    stay.add(found);
    return false;
  });
  const names = [...unrequested, ...stay].map(({ displayName }) => displayName);
  const have = new Set([...names, ...added.map(networkName)]);
  // Every pod has the configured networks: the last attachment to one stays without its element.
  for (const name of configured) {
    const last = [...intact].find(({ displayName }) => displayName === name);
    if (last !== undefined && !have.has(name)) stay.add(last);
  }
  const removals = requested.filter((each) => !stay.has(each)).toReversed();
  const additions = withReplaced(added, removals);
  const isUnknown = ({ displayName }: RecordedAttachment): boolean =>
    displayName.includes("/") && !configured.includes(displayName);
  return { removals, additions, unknown: [...others].filter(isUnknown) };
}

/** What an element and the removal whose place it takes have in common, the closest first. */
const places: readonly ((selection: NetworkSelection, removal: RecordedAttachment) => boolean)[] = [
  (selection, removal) => isDeepStrictEqual(removal.selection, selectionElement(selection)),
  (selection, { ifName }) => selection.ifName === ifName,
  (selection, { displayName, selection: own }) =>
    selection.ifName === own?.ifName && displayName === networkName(selection),
  (selection, { displayName }) => displayName === networkName(selection),
];

/** The elements with the removals whose places they take, each of one. */
function withReplaced(
  added: readonly NetworkSelection[],
  removals: readonly RecordedAttachment[],
): Addition[] {
  const free = new Set(removals);
  const replaced = new Map<NetworkSelection, RecordedAttachment>();
  // A closer one of a later element comes first.
  for (const isPlace of places) {
    for (const selection of added) {
      if (replaced.has(selection)) continue;
      const found = [...free].find((each) => isPlace(selection, each));
      if (found === undefined) continue;
      replaced.set(selection, found);
      free.delete(found);
    }
  }
  const isRenewed = (each: NetworkSelection): boolean => isMoved(replaced.get(each), each);
  const renewed = added.filter(isRenewed).map((each) => replaced.get(each));
  const movable = new Set(removals.filter((each) => !renewed.includes(each)));
  return added.map((selection) => {
    const moves = (each: RecordedAttachment): boolean => isMoved(each, selection);
    const moved = isRenewed(selection) ? undefined : [...movable].find(moves);
    if (moved !== undefined) movable.delete(moved);
    return { selection, replaced: replaced.get(selection), moved };
  });
}

/** Whether an element is that of an attachment, perhaps on another interface. */
function isMoved(removal: RecordedAttachment | undefined, selection: NetworkSelection): boolean {
  const { ifName: _, ...before } = removal?.selection ?? {};
  const { ifName: _ifName, ...after } = selectionElement(selection);
  return isDeepStrictEqual(before, after);
}

function networkName({ namespace, name }: NetworkSelection): string {
  return `${namespace}/${name}`;
}

/** Whether an element requests nothing but a network, and perhaps the name of its interface. */
function isPlain(selection: NetworkSelection): boolean {
  const { namespace: _, name: _name, ifName: _ifName, ...further } = selectionElement(selection);
  return Object.keys(further).length === 0;
}

function mayBeFor(
  { displayName, ifName }: RecordedAttachment,
  selection: NetworkSelection,
): boolean {
  const isSameName = selection.ifName === undefined || selection.ifName === ifName;
  return isSameName && displayName === networkName(selection);
}
