import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { collectFailures, type Failure } from "#engine/call/failures.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import type { ChainToDetach } from "#engine/del/chain/chain-to-detach.ts";
import { FailingTeardown } from "#engine/del/failed-teardown.ts";
import { removeDeviceInfo } from "#engine/plan/devices/device-info.ts";
import { withNetworkContext } from "#engine/plan/planned-attachment.ts";
import { extendedPath } from "#engine/plan/plugins/search-path.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import {
  afterFirstPlugin,
  type DetachableAttachment,
  withoutReleases,
} from "#engine/record/teardown-plan.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** A sandbox with attachments to detach. */
export interface SandboxToDetach {
  readonly record: AttachmentRecord;
  /** CNI_NETNS for the delegates; "" when the namespace is gone. */
  readonly netns: string;
  /** The call's CNI_PATH, searched after recorded directories: plugins may move. @default none */
  readonly path?: readonly string[];
  /** As {@link ChainToDetach.ownPath}. */
  readonly ownPath?: readonly string[] | undefined;
  /** @default `delBudgetMs` from now */
  readonly budget?: TimeBudget;
  /** Rotates the order to start here, with all of the time. @default equal shares of the time */
  readonly first?: number | undefined;
  /** @default its first DEL: what has been attempted may have state outside that needs its plugins */
  readonly failing?: (each: DetachableAttachment) => FailingTeardown;
  readonly onDetached?: (detached: DetachableAttachment) => void;
}

/**
 * Detaches attachments, last first, even if others fail (multi-network specification v1.1 §7.2).
 * One that hangs uses only its share of the time or, with `first`, of the attempts.
 * @returns what could not be detached, with the DELs that are left
 * @throws HostGoneError when the shim has gone: the record then still names the attachments
 */
export async function detachAll(
  ctx: CallContext,
  sandbox: SandboxToDetach,
  attachments: readonly DetachableAttachment[],
): Promise<Failure<DetachableAttachment>[]> {
  const budget = sandbox.budget ?? delBudget(ctx);
  let left = attachments.length;
  const start = (sandbox.first ?? 0) % Math.max(1, left);
  const lastFirst = attachments.toReversed();
  const ordered = [...lastFirst.slice(start), ...lastFirst.slice(0, start)];
  const shortened = new Map<DetachableAttachment, DetachableAttachment>();
  const failures = await collectFailures(ordered, async (each) => {
    const onPluginDone = (): void => {
      shortened.set(each, afterFirstPlugin(shortened.get(each) ?? each));
    };
    const share = sandbox.first === undefined ? budget.share(left--) : budget;
    try {
      await detach(ctx, { ...sandbox, budget: share, onPluginDone }, each);
    } catch (error) {
      throw withNetworkContext(error, each.attachment);
    }
    await removeDeviceInfo(ctx, sandbox.record.containerId, each.attachment);
    sandbox.onDetached?.(each);
  });
  return failures.map(({ item, error }) => ({ error, item: shortened.get(item) ?? item }));
}

/**
 * Detaches attachments of a sandbox that runs, as {@link detachAll}.
 * @returns what is owed now, as the record is to keep it
 */
export async function detachRunning(
  ctx: CallContext,
  sandbox: SandboxToDetach,
  attachments: readonly DetachableAttachment[],
): Promise<Failure<DetachableAttachment>[]> {
  const teardowns = new Map(
    attachments.map(({ attachment: own }) => [own, new FailingTeardown(ctx.deps, own)]),
  );
  const failing = (each: DetachableAttachment) => teardowns.get(each.attachment) as FailingTeardown;
  const failures = await detachAll(ctx, { ...sandbox, failing }, attachments);
  return failures.map(({ item, error }) => {
    const owed = { state: "owed", teardown: failing(item).failed(error) } as const;
    return { error, item: { ...item, attachment: { ...item.attachment, ...owed } } };
  });
}

/** The time for everything that a call detaches; it starts now. */
export function delBudget(ctx: CallContext): TimeBudget {
  return new TimeBudget(ctx.deps.clock, ctx.config.delBudgetMs);
}

async function detach(
  ctx: CallContext,
  sandbox: SandboxToDetach & Required<Pick<ChainToDetach, "budget" | "onPluginDone">>,
  toDetach: DetachableAttachment,
): Promise<void> {
  const { attachment } = toDetach;
  const { displayName: network, ifName } = attachment;
  const { noteGivenUp = () => 0 } = sandbox.failing?.(toDetach) ?? {};
  const { netns, record, path, ownPath, budget, onPluginDone } = sandbox;
  const timeoutMs = ctx.config.delegateTimeoutMs;
  const calls = withoutReleases(toDetach.dels).map((del) => ({
    ...withPath(del, path),
    timeoutMs,
  }));
  await detachChain(ctx, {
    ...{ network, ifName, netns, record, pod: record.pod, calls, budget, ownPath },
    ...{ attachment, noteGivenUp, onPluginDone },
  });
}

/** A planned DEL that also finds its plugin in the directories of `path`. */
export function withPath(call: DelegateCall, path: readonly string[] = []): DelegateCall {
  const searchPath = extendedPath(call.searchPath, path);
  return { ...call, searchPath, env: { ...call.env, CNI_PATH: searchPath.join(":") } };
}
