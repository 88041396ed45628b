import { limitsEgress } from "#cni/conf/plugin-conf.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";
import { confsOf } from "./held-device.ts";

/**
 * Whether the DEL of a plugin would take the device with which it limits another attachment of the
 * sandbox: `bandwidth` removes it by network name and container, also where it has made none. An ADD
 * refuses two attachments that have one.
 */
export function wouldTakeShaping(
  { type, stdin }: DelegateCall,
  { record, ifName }: Pick<ChainToDetach, "record" | "ifName">,
): boolean {
  if (type !== "bandwidth" || record === undefined) return false;
  const conf = objectOf(parseJsonText(stdin));
  if (limitsEgress(conf) || limitsEgress(objectOf(conf.runtimeConfig).bandwidth)) return false;
  return record.attachments.some(
    (each) =>
      each.ifName !== ifName &&
      each.conf.name === conf.name &&
      confsOf(each).some((other) => objectOf(other).type === type),
  );
}
