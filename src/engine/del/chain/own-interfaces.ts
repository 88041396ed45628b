import type { RecordedAttachment } from "#engine/record/record.ts";
import { type Json, objectsOf } from "#lib/json.ts";
import type { Link } from "#netlink/links.ts";

/** Whether an interface of an attachment is there, by name and MAC address. */
export function isPresent(attachment: RecordedAttachment, links: readonly Link[]): boolean {
  return withMac(attachment).some((own) =>
    links.some(({ name, mac }) => name === own.name && mac === own.mac),
  );
}

/** Whether an interface of an attachment may be there: by its name alone if its address is unknown. */
export function mayBePresent(attachment: RecordedAttachment, links: readonly Link[]): boolean {
  const { ifName } = attachment;
  if (withMac(attachment).some(({ name }) => name === ifName)) return isPresent(attachment, links);
  return links.some(({ name }) => name === ifName);
}

/** The interfaces of an attachment whose MAC address is known, which plugins print in either case. */
function withMac({ result }: RecordedAttachment): { name: Json; mac: string }[] {
  return objectsOf(result?.interfaces).flatMap(({ name = "", mac }) =>
    typeof mac === "string" && mac !== "" ? [{ name, mac: mac.toLowerCase() }] : [],
  );
}
