import { isDeepStrictEqual } from "node:util";
import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { delCallsOfStored } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { defaultNetwork, furtherDelegates } from "#engine/plan/default-network.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import { isJsonObject, objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";

/**
 * A DEL with the present configuration of the default network, or of a further delegate: after an
 * upgrade, a plugin may refuse what its earlier release accepted. It must be the only plugin of its
 * type, then and now, of the same network with the same IPAM: another one's DEL would count for it.
 * Undefined if there is none, or it is the recorded one.
 */
export async function withConfOfNow(
  ctx: CallContext,
  { attachment, record }: Pick<ChainToDetach, "attachment" | "record">,
  call: DelegateCall,
): Promise<DelegateCall | undefined> {
  if (attachment === undefined || record === undefined) return undefined;
  const list = await listOfNow(ctx, attachment);
  if (list === undefined) return undefined;
  const { prevResult, ...recorded } = objectOf(parseJsonText(call.stdin));
  const result = isJsonObject(prevResult) ? prevResult : attachment.result;
  const rt = runtimeConf(record, attachment, call.timeoutMs);
  const ofType = ({ type }: { readonly type: string }): boolean => type === call.type;
  const [candidate, ...others] = delCallsOfStored(list, rt, result).filter(ofType);
  const isOnly =
    others.length === 0 && recordedList(attachment).plugins.filter(ofType).length === 1;
  if (candidate === undefined || !isOnly) return undefined;
  const { prevResult: _, ...now } = objectOf(parseJsonText(candidate.stdin));
  const isUsed = isDeepStrictEqual(now.ipam, recorded.ipam) && !isDeepStrictEqual(now, recorded);
  return isUsed ? { ...call, stdin: candidate.stdin } : undefined;
}

/** The list with the attachment's name, if it can be read without the API server. */
async function listOfNow(
  ctx: CallContext,
  { isDefault, selection, conf }: RecordedAttachment,
): Promise<NetConfList | undefined> {
  const { source: _, ...deps } = ctx.deps;
  const offline = { ...ctx, deps, unlimited: true };
  try {
    const networks = isDefault ? [await defaultNetwork(offline)] : furtherDelegates(offline);
    const [network] = networks.filter(({ list }) => list.name === conf.name);
    return selection === undefined || isDefault ? network?.list : undefined;
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}
