import { CniError, withNetworkContext } from "#cni/error.ts";
import type { CheckRequest } from "#cni/plugin/request.ts";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import { type Result, sandboxInterfaces } from "#cni/result/result.ts";
import { checkNetwork } from "#cni/runtime/chain.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import { isAtLeast } from "#cni/versions.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import {
  inSandbox,
  netlinkTransport,
  sandboxAddresses,
  sandboxLinks,
} from "#engine/call/sandbox.ts";
import {
  type AttachmentRecord,
  addHasEnded,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import { formatCidr, type IpFamily, parseCidr } from "#lib/ip.ts";
import type { JsonObject } from "#lib/json.ts";
import type { InterfaceAddress, Link } from "#netlink/links.ts";
import { isKeptRoute, listRoutes } from "#netlink/routes.ts";

/** What the kernel has in the sandbox. */
interface SandboxState {
  readonly links: readonly Link[];
  readonly addresses: readonly InterfaceAddress[];
}

/**
 * CHECK: verifies that the interfaces of every recorded attachment exist and have their addresses,
 * as far as the kernel had them after the ADD. Then the default network's plugins check. Those of
 * other networks check only with `checkDelegates: all`, because they may fail without a fault of
 * the pod: a bridge's MAC address changes with its ports, for which the `bridge` plugin fails, and
 * CRI-O, which calls CHECK after ADD, stops the pod. Networks that cannot be checked (older than
 * 0.4.0, or `disableCheck`) are skipped. Stops at the first problem.
 * @throws CniError 3 when nothing is recorded for the sandbox, 999 when only a part of it still is
 */
export async function check(ctx: CallContext, request: CheckRequest): Promise<void> {
  const stored = await ctx.trace.phase("record", () => ctx.deps.records.load(request));
  const { containerId, ifName, netns } = request;
  if (stored === undefined) {
    const message = `container ${containerId} has no recorded attachment for interface ${ifName}`;
    throw new CniError("UnknownContainer", message);
  }
  const { record } = stored;
  if (record.teardown !== undefined) {
    const { failedAt, lastError } = record.teardown;
    const reason = `a DEL at ${failedAt} did not detach all of it: ${lastError}`;
    throw new CniError("Internal", `the sandbox is no longer completely attached: ${reason}`);
  }
  const state = await inSandbox(netns, async () => ({
    links: await sandboxLinks(ctx, netns),
    addresses: await sandboxAddresses(ctx, netns),
  }));
  await checkClusterRoutes(ctx, netns, record);
  // What hot-plug has not finished is not the runtime's concern, which would stop the pod.
  const isConcern = ({ state }: RecordedAttachment): boolean =>
    state === "attached" || !addHasEnded(record);
  for (const attachment of record.attachments.filter(isConcern)) {
    try {
      await checkAttachment(ctx, { request, state }, attachment);
    } catch (error) {
      throw withNetworkContext(error, attachment);
    }
  }
}

async function checkClusterRoutes(
  ctx: CallContext,
  netns: string,
  { clusterRoutes = [] }: AttachmentRecord,
): Promise<void> {
  if (clusterRoutes.length === 0) return;
  const read = (family: IpFamily) => listRoutes(netlinkTransport(ctx), netns, family);
  const routes = await inSandbox(netns, () => Promise.all([read(4), read(6)]));
  const kept = routes.flat().flatMap((route) => (isKeptRoute(route) ? formatCidr(route.dst) : []));
  const lost = clusterRoutes.find((dst) => !kept.includes(dst));
  if (lost !== undefined) throw failed(`the pod has lost its route to ${lost} in the cluster`);
}

async function checkAttachment(
  ctx: CallContext,
  { request, state }: { readonly request: CheckRequest; readonly state: SandboxState },
  attachment: RecordedAttachment,
): Promise<void> {
  const list = recordedList(attachment);
  if (list.disableCheck || !isAtLeast(list.cniVersion, "0.4.0")) return;
  if (attachment.result === undefined) throw failed("its ADD was not completed");
  const prevResult = attachment.isDefault
    ? afterLaterPlugins(attachment.result, request)
    : attachment.result;
  const result = parseResult(prevResult, { fallbackVersion: list.cniVersion });
  checkOwnState(attachment, result, state);
  if (!attachment.isDefault && ctx.config.checkDelegates !== "all") return;
  const rt = runtimeConf(request, attachment, ctx.config.delegateTimeoutMs);
  const run = ctx.delegateRunner(attachment.displayName);
  await checkNetwork(list, rt, { prevResult, run });
}

/** Later plugins of the runtime's list may have changed the result (CNI 0.4.0 §3 "CHECK"). */
function afterLaterPlugins(
  recorded: JsonObject,
  { prevResult, conf: { cniVersion } }: CheckRequest,
): JsonObject {
  const asPrinted = (raw: JsonObject): string =>
    JSON.stringify(formatResult(parseResult(raw, { fallbackVersion: cniVersion }), cniVersion));
  const isOurs = prevResult === undefined || asPrinted(prevResult) === asPrinted(recorded);
  return isOurs ? recorded : prevResult;
}

function checkOwnState(attachment: RecordedAttachment, result: Result, state: SandboxState): void {
  for (const { index, link: wanted } of sandboxInterfaces(result)) {
    if (attachment.userSpaceInterfaces?.includes(wanted.name) === true) continue;
    const link = state.links.find((l) => l.name === wanted.name);
    if (link === undefined) throw failed(`interface ${wanted.name} is gone`);
    const present = state.addresses.filter((a) => a.ifIndex === link.index);
    for (const ip of result.ips.filter((candidate) => candidate.interface === index)) {
      const { address, prefix } = parseCidr(ip.address);
      if (present.some((a) => a.address === address && a.prefix === prefix)) continue;
      throw failed(`interface ${wanted.name} has lost its address ${ip.address}`);
    }
  }
}

function failed(reason: string): CniError {
  return new CniError("Internal", reason);
}
