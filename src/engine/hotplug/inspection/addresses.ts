import { isDeepStrictEqual } from "node:util";
import { parseResult } from "#cni/result/parse.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxAddresses, sandboxLinks } from "#engine/call/sandbox.ts";
import type { LockedSandbox } from "#engine/hotplug/running-sandboxes.ts";
import { statusOfRecord } from "#engine/network-status/status-of-record.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { addressesOf } from "#npwg/network-status.ts";

/** A pod can give its interfaces any number of addresses; the status shows so many of each. */
const maxAddresses = 16;

/**
 * Records the addresses that interfaces of a running sandbox have now, if they are not those of
 * the results: by SLAAC, or from a DHCP server. An interface without any keeps those of its result,
 * because a virtual machine may use them.
 * @returns the record if something has changed, with the new status
 * @throws CniError 5 for kernel errors, or when the record cannot be written, 6 or 7 when it cannot
 *   be read; HostGoneError when the agent has gone
 */
export async function updateAddresses(
  { ctx }: Pick<LockedSandbox, "ctx">,
  { record, plan }: StoredRecord,
): Promise<StoredRecord | undefined> {
  const present = await presentAddresses(ctx, record.netns);
  const attachments = record.attachments.map((each) => withAddresses(each, present));
  if (isDeepStrictEqual(attachments, record.attachments)) return undefined;
  const status = await statusOfRecord(ctx, { ...record, attachments });
  const changed = { ...record, attachments, ...status };
  await ctx.deps.records.update(changed, plan);
  return { record: changed, plan };
}

/** The global addresses by interface. */
async function presentAddresses(ctx: CallContext, netns: string): Promise<Map<string, string[]>> {
  const links = await sandboxLinks(ctx, netns);
  const all = await sandboxAddresses(ctx, netns);
  const global = all.filter(({ isGlobal }) => isGlobal);
  const addressesAt = (index: number): string[] =>
    global.filter(({ ifIndex }) => ifIndex === index).map(({ address }) => address);
  return new Map(links.map(({ name, index }) => [name, addressesAt(index)]));
}

/** An attachment without a result has no addresses. */
function withAddresses(
  attachment: RecordedAttachment,
  present: ReadonlyMap<string, readonly string[]>,
): RecordedAttachment {
  const { addresses: _, ...rest } = attachment;
  const result = parseResult(rest.result, { fallbackVersion: "" });
  const changed = [...addressesOf(result)].flatMap(([name, before]) => {
    const now = present.get(name) ?? [];
    const isSame = isDeepStrictEqual(new Set(before), new Set(now));
    if (now.length === 0 || isSame) return [];
    // In the result's order, so that a first address stays the first one.
    const kept = before.filter((ip) => now.includes(ip));
    const added = now.filter((ip) => !before.includes(ip)).toSorted();
    return [[name, [...kept, ...added].slice(0, maxAddresses)]];
  });
  return changed.length === 0 ? rest : { ...rest, addresses: Object.fromEntries(changed) };
}
