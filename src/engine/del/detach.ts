import { asCniError, type CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { extendedPath } from "#cni/runtime/delegate-calls.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { failedTeardown, givenUpSince } from "#engine/del/failed-teardown.ts";
import { removeDeviceInfo } from "#engine/network-status/device-info.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { afterFirstPlugin, type DetachableAttachment, withoutReleases } from "./planned-dels.ts";

/** A sandbox with attachments to detach. */
export interface SandboxToDetach {
  readonly record: AttachmentRecord;
  /** CNI_NETNS for the delegates; "" when the namespace is gone. */
  readonly netns: string;
  /** The call's CNI_PATH, searched after recorded directories: plugins may move. @default none */
  readonly path?: readonly string[];
  /** @default {@link delBudget} */
  readonly budget?: TimeBudget;
  /**
   * The sandbox is not the call's, whose path may lack plugins of the sandbox's runtime. There will be
   * other attempts, so each gives its time to another attachment first.
   * @default false: the attachments get equal shares of the time
   */
  readonly isOfOthers?: boolean;
  /** What could not be detached is owed then. @default false */
  readonly isRunning?: boolean;
  readonly onDetached?: (detached: DetachableAttachment) => void;
}

/** An attachment that could not be detached. */
export interface Undetached {
  readonly error: CniError;
  /** With the failure, and the DELs that are left, as the record is to keep it. */
  readonly left: DetachableAttachment;
}

/**
 * Detaches attachments, last first, even if others fail (multi-network specification v1.1 §7.2).
 * One that hangs uses only its share of the time, or of the attempts.
 * @returns what could not be detached, in the order of attachment
 * @throws HostGoneError when the shim has gone: the record then still names the attachments
 */
export async function detachAll(
  ctx: CallContext,
  sandbox: SandboxToDetach,
  attachments: readonly DetachableAttachment[],
): Promise<Undetached[]> {
  const { budget = delBudget(ctx), isOfOthers = false, record } = sandbox;
  let left = attachments.length;
  const start = isOfOthers ? (record.teardown?.attempts ?? 0) % Math.max(1, left) : 0;
  const lastFirst = attachments.toReversed();
  const failures = new Map<DetachableAttachment, Undetached>();
  for (const each of [...lastFirst.slice(start), ...lastFirst.slice(0, start)]) {
    const share = isOfOthers ? budget : budget.share(left--);
    const failure = await detach(ctx, { ...sandbox, budget: share }, each);
    if (failure === undefined) sandbox.onDetached?.(each);
    else failures.set(each, failure);
  }
  return attachments.flatMap((each) => failures.get(each) ?? []);
}

/** Less than the minute after which CRI-O ends a DEL, so that each network gets its share. */
const delBudgetMs = 50_000;

/** The time for everything that a call detaches; it starts now. */
export function delBudget({ deps: { clock } }: CallContext): TimeBudget {
  return new TimeBudget(clock, delBudgetMs);
}

async function detach(
  ctx: CallContext,
  { netns, record, path, isOfOthers, isRunning, budget }: SandboxToDetach & { budget: TimeBudget },
  toDetach: DetachableAttachment,
): Promise<Undetached | undefined> {
  const { attachment } = toDetach;
  const { displayName: network, ifName } = attachment;
  const timeoutMs = ctx.config.delegateTimeoutMs;
  const calls = withoutReleases(toDetach.dels).map((del) => ({
    ...withPath(del, path),
    timeoutMs,
  }));
  let missingSince: ReturnType<typeof givenUpSince> | undefined;
  const noteGivenUp = (): number => {
    missingSince = givenUpSince(ctx.deps, attachment);
    return ctx.deps.clock() - missingSince.clockMs;
  };
  let rest = toDetach;
  const onPluginDone = (): void => {
    rest = afterFirstPlugin(rest);
  };
  try {
    await detachChain(ctx, {
      ...{ network, ifName, netns, record, calls, budget, ownPath: isOfOthers ? undefined : path },
      ...{ attachment, noteGivenUp, onPluginDone },
    });
    await removeDeviceInfo(ctx, record.containerId, attachment);
    return undefined;
  } catch (cause) {
    if (cause instanceof HostGoneError) throw cause;
    const error = asCniError(cause);
    // A DEL that did not come so far does not end the grace period.
    if (error.reason === "TryAgainLater") missingSince ??= attachment.teardown?.missingSince;
    const failed = failedTeardown(ctx.deps, attachment, error);
    const teardown = omitUndefined({ ...failed, missingSince });
    const state = isRunning === true ? "owed" : attachment.state;
    return { error, left: { ...rest, attachment: { ...attachment, state, teardown } } };
  }
}

/** A planned DEL that also finds its plugin in the directories of `path`. */
export function withPath(call: DelegateCall, path: readonly string[] = []): DelegateCall {
  const searchPath = extendedPath(call.searchPath, path);
  return { ...call, searchPath, env: { ...call.env, CNI_PATH: searchPath.join(":") } };
}
