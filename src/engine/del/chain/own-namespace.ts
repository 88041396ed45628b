import type { CallContext } from "#engine/call/call-context.ts";
import { isMadeOnce, recordsAt } from "#engine/call/netns-path.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { signOfBoot } from "#engine/call/signs-of-life.ts";
import { NetnsError } from "#engine/ports/host.ts";
import {
  type AttachmentRecord,
  attachmentsToDetach,
  byAge,
  mayRun,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import type { Link } from "#netlink/links.ts";

/**
 * Whether the namespace at the path of a record is still the sandbox's, in the order of these signs:
 * - A later sandbox at the path has an interface of the same name: it is that one's. The MAC address
 *   could not tell, because ipvlan and VLAN interfaces have that of their parent.
 * - An interface has the recorded name and MAC address: it is.
 * - All MAC addresses are known, and none is there: it is not.
 * - Otherwise (a user-space driver, a result without MAC address, an interrupted ADD), it is if the
 *   path is made once: a container that Plexus does not know may have any other one. But it is not if
 *   another sandbox is recorded at the path, or the record is of another boot. The record of an ADD
 *   that plexusd began late may be newer than the other one.
 */
export async function isOwnNamespace(ctx: CallContext, record: AttachmentRecord): Promise<boolean> {
  const left = attachmentsToDetach(record, ctx.deps.bootId());
  const { others, isUnknown } = await othersAt(ctx, record);
  const compare = byAge(ctx.deps.bootId());
  const later = others.filter((each) => compare(each, record) > 0);
  const names = later.flatMap(({ attachments }) => attachments.map(({ ifName }) => ifName));
  if (left.some(({ ifName }) => names.includes(ifName))) return false;
  const links = await linksAt(ctx, record);
  if (left.some((each) => isPresent(each, links))) return true;
  if (left.every(hasKnownMac)) return false;
  const isAlone = others.length === 0 && !isUnknown && signOfBoot(record, ctx.deps) === undefined;
  return isAlone && isMadeOnce(record.netns);
}

/** Other sandboxes that may run, and are recorded with the same path. Of a damaged record, that is unknown. */
async function othersAt(
  { deps }: CallContext,
  { netns, containerId }: AttachmentRecord,
): Promise<{ others: AttachmentRecord[]; isUnknown: boolean }> {
  const { records, damaged } = await recordsAt(deps, netns);
  const isOther = (each: Pick<AttachmentRecord, "containerId">): boolean =>
    each.containerId !== containerId;
  const others = records.filter((each) => mayRun(each) && isOther(each));
  return { others, isUnknown: damaged.some(isOther) };
}

async function linksAt(ctx: CallContext, { netns }: AttachmentRecord): Promise<Link[]> {
  try {
    return await sandboxLinks(ctx, netns);
  } catch (error) {
    if (error instanceof NetnsError) return [];
    throw error;
  }
}

/** Whether an interface of an attachment is there, by name and MAC address. */
function isPresent(attachment: RecordedAttachment, links: readonly Link[]): boolean {
  return interfacesOf(attachment).some((own) => isAmong(links, own));
}

/** Whether an interface of an attachment may be there: by its name alone if its address is unknown. */
export function mayBePresent(attachment: RecordedAttachment, links: readonly Link[]): boolean {
  const isThere = links.some(({ name }) => name === attachment.ifName);
  return isPresent(attachment, links) || (isThere && macOf(attachment) === "");
}

function interfacesOf({ result }: RecordedAttachment): JsonObject[] {
  const interfaces = Array.isArray(result?.interfaces) ? result.interfaces : [];
  return interfaces.filter(isJsonObject);
}

function isAmong(links: readonly Link[], { name, mac }: JsonObject): boolean {
  return typeof mac === "string" && links.some((link) => link.name === name && isSame(link, mac));
}

/** Plugins print MAC addresses in lower or upper case. */
function isSame(link: Link, mac: string): boolean {
  return link.mac === mac.toLowerCase();
}

/** Whether a missing interface proves something: one with a user-space driver never exists. */
function hasKnownMac(attachment: RecordedAttachment): boolean {
  return attachment.device === undefined && macOf(attachment) !== "";
}

/** The MAC address of an attachment's interface; "" if it is unknown. */
function macOf(attachment: RecordedAttachment): string {
  const own = interfacesOf(attachment).find(({ name }) => name === attachment.ifName);
  return typeof own?.mac === "string" ? own.mac : "";
}
