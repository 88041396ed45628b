import { deviceIgnoringPlugins } from "#cni/reference-plugins.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { isNothingAt } from "#engine/del/signs-of-life.ts";
import { checkReadable, type DamagedRecord } from "#engine/ports/records.ts";
import {
  type AttachmentRecord,
  byAge,
  type RecordedAttachment,
  sandboxName,
} from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { type Json, objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";
import { interfaceIsPresent } from "./netns.ts";

/** Another sandbox that may run with a device or an address. */
export interface Holder {
  /** For people. */
  readonly holder: string;
  /** Whether it is attached with it: its own DEL then releases it. Its ADD may still fail. */
  readonly isAttached: boolean;
}

/** A device of an attachment that another sandbox has now, or may get. */
export interface HeldDevice extends Holder {
  readonly id: string;
}

/**
 * The device of a plugin that has moved on to another sandbox, or is about to: a DEL that is late or
 * repeated would reset it there. While the chain's interface is in its namespace, the device has
 * not moved.
 * @throws CniError when a record cannot be read
 */
export async function heldDevice(
  ctx: CallContext,
  call: DelegateCall,
  at: Pick<ChainToDetach, "netns" | "ifName">,
): Promise<HeldDevice | undefined> {
  const ids = new Set(idsIn(parseJsonText(call.stdin)));
  // This is cheap. The node may have many records.
  if (ids.size === 0 || (await interfaceIsPresent(ctx, at))) return undefined;
  for (const id of ids) {
    const device = await recordedDevice(ctx, id, call.env.CNI_CONTAINERID ?? "");
    checkReadable(device.damaged);
    const holder = await holderOf(ctx, device);
    if (holder !== undefined) return { id, ...holder };
  }
  return undefined;
}

/** What is recorded of a device. */
export interface RecordedDevice {
  readonly id: string;
  /** The record of the sandbox that is attached or detached. */
  readonly own: AttachmentRecord | undefined;
  readonly others: readonly AttachmentRecord[];
  /** Records of other sandboxes that name the device, and cannot be read. */
  readonly damaged: readonly DamagedRecord[];
}

/** The records with a device. @throws CniError when the records cannot be read */
export async function recordedDevice(
  { deps }: CallContext,
  id: string,
  containerId: string,
): Promise<RecordedDevice> {
  const { records, damaged } = await deps.records.list();
  const isOwn = (key: RecordKey): boolean => key.containerId === containerId;
  const naming = records.filter((each) => attachmentsWith(each, id).length > 0);
  return {
    id,
    own: naming.find(isOwn),
    others: naming.filter((each) => !isOwn(each)),
    damaged: damaged.filter((each) => !isOwn(each) && each.mayContain(JSON.stringify(id))),
  };
}

/**
 * Another sandbox that may run with the device; rather one that is attached. Of an earlier sandbox,
 * two signs say that it does not: the device was given to this one, and nothing is at the path of
 * its namespace.
 */
export async function holderOf(
  ctx: CallContext,
  { id, own, others, damaged }: RecordedDevice,
): Promise<Holder | undefined> {
  const holders: Holder[] = [];
  const compare = byAge(ctx.deps.bootId());
  for (const other of others.filter(({ teardown }) => teardown === undefined)) {
    const isEarlier = own !== undefined && compare(other, own) < 0;
    if (isEarlier && (await isNothingAt(ctx, other.netns))) continue;
    const isAttached = attachmentsWith(other, id).some(({ state }) => state === "attached");
    holders.push({ holder: sandboxName(other), isAttached });
  }
  // What has happened to the sandbox of a damaged record is unknown.
  holders.push(...damaged.map(({ containerId }) => ({ holder: containerId, isAttached: true })));
  return holders.find(({ isAttached }) => isAttached) ?? holders[0];
}

/** The attachments of a sandbox that have, or are about to get, a device. */
function attachmentsWith({ attachments }: AttachmentRecord, id: string): RecordedAttachment[] {
  return attachments.filter((attachment) => confsOf(attachment).flatMap(idsIn).includes(id));
}

/** The configurations of an attachment's plugins. */
export function confsOf({ conf }: RecordedAttachment): Json[] {
  return Array.isArray(conf.plugins) ? conf.plugins : [conf];
}

/** The devices that a plugin's configuration names, if the plugin uses them. */
function idsIn(conf: Json | undefined): string[] {
  const { type, deviceID, pciBusID, runtimeConfig } = objectOf(conf);
  if (deviceIgnoringPlugins.has(type)) return [];
  const ids = [deviceID, pciBusID, objectOf(runtimeConfig).deviceID];
  return ids.filter((id) => typeof id === "string").filter((id) => id !== "");
}
