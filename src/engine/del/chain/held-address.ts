import { ipamType } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { checkReadable } from "#engine/ports/records.ts";
import {
  type AttachmentRecord,
  mayRun,
  type RecordedAttachment,
  sandboxName,
} from "#engine/record/record.ts";
import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { confsOf, type Holder } from "./held-device.ts";

/**
 * Plugins whose DEL removes rules of the node by the addresses of `prevResult`, which another pod may
 * have now. Others find by container and interface what they remove.
 */
const removingByAddress: ReadonlySet<string> = new Set(["firewall"]);

/** Whether a plugin, or its IPAM plugin, is one of {@link removingByAddress}. */
export function removesByAddress(conf: Json): boolean {
  return [objectOf(conf).type, ipamType(conf)].some(
    (type) => typeof type === "string" && removingByAddress.has(type),
  );
}

/**
 * A DEL without the addresses that another attachment of its network has now: one that is late or
 * repeated would remove its rules. The other one must have such a plugin, whose DEL removes them
 * later. `prevResult` may lack addresses (CNI 1.1.0 §4 "DEL").
 * @throws CniError 11 while that is undecided: if the other ADD fails, nothing else removes the rules;
 *   also when a record cannot be read. Error when they cannot be listed
 */
export async function withoutAddressesOfOthers(
  ctx: CallContext,
  call: DelegateCall,
): Promise<DelegateCall> {
  const conf = objectOf(parseJsonText(call.stdin));
  const result = objectOf(conf.prevResult);
  const ips = objectsOf(result.ips);
  if (ips.length === 0 || !removesByAddress(conf)) return call;
  const holders = await holdersOf(ctx, call, { network: conf.name, ips });
  const left = ips.filter((ip) => {
    const held = holders.get(addressOf(ip));
    if (held?.isAttached === false) throw undecided(call, addressOf(ip), held.holder);
    return held === undefined;
  });
  if (left.length === ips.length) return call;
  ctx.logger.info(
    { plugin: call.type, ips },
    "a DEL gets no address that another attachment has now",
  );
  return { ...call, stdin: JSON.stringify({ ...conf, prevResult: { ...result, ips: left } }) };
}

/** Who has addresses of the network of a DEL, by address without prefix length. */
async function holdersOf(
  { deps }: CallContext,
  { env }: DelegateCall,
  { network, ips }: { readonly network: Json | undefined; readonly ips: readonly JsonObject[] },
): Promise<ReadonlyMap<string, Holder>> {
  const { records, damaged } = await deps.records.list();
  const found = new Map<string, Holder>();
  const held = records.filter(mayRun).flatMap((record) => heldBy(record, network, env));
  for (const { address, ...holder } of held)
    if (holder.isAttached || !found.has(address)) found.set(address, holder);
  const unusable = damaged.filter(
    (each) => each.containerId !== env.CNI_CONTAINERID && each.mayContain(JSON.stringify(network)),
  );
  checkReadable(unusable);
  // What a damaged record is about is unknown: it holds each of the addresses that it names.
  for (const { containerId: holder, mayContain } of unusable)
    for (const address of ips.map(addressOf))
      if (mayContain(`"${address}/`)) found.set(address, { holder, isAttached: true });
  return found;
}

/** The addresses of a network's attachments, without the attachment that a DEL is for. */
function heldBy(
  record: AttachmentRecord,
  network: Json | undefined,
  env: DelegateCall["env"],
): ({ readonly address: string } & Holder)[] {
  const holder = sandboxName(record);
  return record.attachments
    .filter((each) => isOfNetwork(each, network) && !isSameAttachment(record, each, env))
    .flatMap((each) => {
      const isAttached = each.state === "attached";
      return addressesOf(each).map((address) => ({ address, holder, isAttached }));
    });
}

/** Whether it is the attachment of a DEL, or another one of its container that is not attached. */
function isSameAttachment(
  { containerId }: AttachmentRecord,
  { ifName, state }: RecordedAttachment,
  { CNI_CONTAINERID, CNI_IFNAME }: DelegateCall["env"],
): boolean {
  return containerId === CNI_CONTAINERID && (ifName === CNI_IFNAME || state !== "attached");
}

function isOfNetwork(attachment: RecordedAttachment, network: Json | undefined): boolean {
  return attachment.conf.name === network && confsOf(attachment).some(removesByAddress);
}

function undecided({ type }: DelegateCall, address: string, holder: string): CniError {
  const message = `cannot yet execute plugin "${type}" for address ${address}: ${holder} is being attached with it`;
  return new CniError("TryAgainLater", message);
}

/** Before an attachment has a result, its request or its configuration can name its address. */
function addressesOf(attachment: RecordedAttachment): string[] {
  const { state, result } = attachment;
  if (!["planned", "attempted", "attached"].includes(state)) return [];
  if (result !== undefined) return objectsOf(result.ips).map(addressOf);
  const named = JSON.stringify(attachment).matchAll(/"([0-9A-Fa-f.:]{2,45})\//g);
  return Array.from(named, ([, address = ""]) => address);
}

/** An address of a result, without its prefix length. */
function addressOf({ address }: JsonObject): string {
  return String(address).split("/")[0] as string;
}
