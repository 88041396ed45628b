import { isDeepStrictEqual } from "node:util";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { type NetworkSelection, selectionElement } from "#npwg/selection/network-selection.ts";

/** What makes a running pod's networks those of its annotation. */
export interface NetworkChanges {
  /** Last attached first. A changed element is in both lists. */
  readonly removals: readonly RecordedAttachment[];
  /** In the order of the annotation. */
  readonly additions: readonly NetworkSelection[];
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
 * matter, and elements without an interface keep theirs. What an interrupted operation left is
 * removed, and added again if it is still requested.
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
  const isIntact = ({ hotPlug, ifName }: RecordedAttachment): boolean =>
    hotPlug === undefined && ifName !== refreshed;
  const intact = new Set(requested.filter(isIntact));
  const unrequested = attachments.filter(({ selection }) => selection === undefined);
  const others = new Set(unrequested.filter(({ isDefault }) => !isDefault));
  const stay = new Set<RecordedAttachment>();
  const additions = selections.filter((selection) => {
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
  const have = new Set([...names, ...additions.map(networkName)]);
  // Every pod has the configured networks: the last attachment to one stays without its element.
  for (const name of configured) {
    const last = [...intact].find(({ displayName }) => displayName === name);
    if (last !== undefined && !have.has(name)) stay.add(last);
  }
  const removals = requested.filter((each) => !stay.has(each)).toReversed();
  return { removals, additions };
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
