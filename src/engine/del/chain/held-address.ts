import { ipamType } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { checkReadable, type RecordReader } from "#engine/ports/records.ts";
import { mayRun, type RecordedAttachment, sandboxName } from "#engine/record/record.ts";
import { type Json, type JsonObject, objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { confsOf } from "./held-device.ts";

/**
 * Plugins whose DEL does not read the addresses of `prevResult`: they find by container and interface
 * what they remove. Others may find it by address, as `firewall` does.
 */
const ignoringAddresses: ReadonlySet<string> = new Set([
  ...["bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "sriov", "tap"],
  ...["bandwidth", "portmap", "sbr", "tuning", "vlan", "vrf"],
  ...["dhcp", "host-local", "static"],
]);

/** The records with an address, by the beginning of the address as JSON. */
export type Listed = Map<string, ReturnType<RecordReader["list"]>>;

/**
 * A DEL without the addresses that another attachment has now: one that is late or
 * repeated would remove its rules. The other one must have the same plugin, whose DEL removes them
 * later. Its network does not matter, because such rules are the node's. `prevResult` may lack
 * addresses (CNI 1.1.0 §4 "DEL").
 * @throws CniError 11 while that is undecided: if the other ADD fails, nothing else removes the rules;
 *   also when a record cannot be read. Error when they cannot be listed
 */
export async function withoutHeldAddresses(
  { deps, logger }: CallContext,
  call: DelegateCall,
  listed: Listed,
): Promise<DelegateCall> {
  const conf = objectOf(parseJsonText(call.stdin));
  const plugins = findingByAddress(conf);
  const result = objectOf(conf.prevResult);
  const { ips } = result;
  if (plugins.length === 0 || !Array.isArray(ips)) return call;
  const left: Json[] = [];
  for (const ip of ips) {
    const text = beginningOf(ip);
    const found = listed.get(text) ?? deps.records.list({ containing: text });
    listed.set(text, found);
    if (!isHeld(await found, call, { plugins, text })) left.push(ip);
  }
  if (left.length === ips.length) return call;
  logger.info({ plugin: call.type, ips }, "a DEL gets no address that another attachment has now");
  return { ...call, stdin: JSON.stringify({ ...conf, prevResult: { ...result, ips: left } }) };
}

/** Which of a plugin and its IPAM plugin may find by the addresses of the result what a DEL removes. */
export function findingByAddress(conf: JsonObject): string[] {
  return pluginsOf(conf).filter((type) => !ignoringAddresses.has(type));
}

/** Whether another attachment has an address and one of the plugins. Of a damaged record, that is unknown. */
function isHeld(
  { records, damaged }: Awaited<ReturnType<RecordReader["list"]>>,
  { env, type }: DelegateCall,
  { plugins, text }: { readonly plugins: readonly string[]; readonly text: string },
): boolean {
  const others = damaged.filter(({ containerId }) => containerId !== env.CNI_CONTAINERID);
  checkReadable(others);
  if (others.length > 0) return true;
  const holders = records.filter(mayRun).flatMap((record) => {
    const isOwn = record.containerId === env.CNI_CONTAINERID;
    return record.attachments
      .filter(({ ifName, state }) => !isOwn || (ifName !== env.CNI_IFNAME && state === "attached"))
      .filter((each) => mayHave(each, text))
      .filter((each) =>
        confsOf(each)
          .flatMap(pluginsOf)
          .some((type) => plugins.includes(type)),
      )
      .map(({ state }) => ({ holder: sandboxName(record), isAttached: state === "attached" }));
  });
  if (holders.some(({ isAttached }) => isAttached)) return true;
  const [first] = holders;
  if (first === undefined) return false;
  const message = `cannot yet execute plugin "${type}" for address ${text.slice(1, -1)}: ${first.holder} is being attached with it`;
  throw new CniError("TryAgainLater", message);
}

/** Before an attachment has a result, its request or its configuration can name its address. */
function mayHave(attachment: RecordedAttachment, text: string): boolean {
  const { state, result } = attachment;
  if (!["planned", "attempted", "attached"].includes(state)) return false;
  return JSON.stringify(result === undefined ? attachment : (result.ips ?? [])).includes(text);
}

/** A plugin and its IPAM plugin. */
function pluginsOf(conf: Json): string[] {
  return [objectOf(conf).type, ipamType(conf)].filter((type) => typeof type === "string");
}

/** An address of a result as JSON, up to its prefix length. */
function beginningOf(ip: Json): string {
  return `"${String(objectOf(ip).address).split("/")[0]}/`;
}
