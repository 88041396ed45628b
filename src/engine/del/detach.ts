import { asCniError, type CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { FailingTeardown } from "#engine/del/failed-teardown.ts";
import { removeDeviceInfo } from "#engine/plan/devices/device-info.ts";
import { withNetworkContext } from "#engine/plan/planned-attachment.ts";
import { extendedPath } from "#engine/plan/plugins/search-path.ts";
import { HostGoneError } from "#engine/ports/host.ts";
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
  /** As `ownPath` of {@link detachChain}'s attachment. */
  readonly ownPath?: readonly string[] | undefined;
  /** @default `delBudgetMs` from now */
  readonly budget?: TimeBudget;
  /** Rotates the order to start here, with all of the time. @default equal shares of the time */
  readonly first?: number | undefined;
  /** What could not be detached is owed then. @default false */
  readonly isRunning?: boolean;
  readonly onDetached?: (detached: DetachableAttachment) => void;
}

/** An attachment that could not be detached. */
export interface Undetached {
  readonly attempted: DetachableAttachment;
  readonly error: CniError;
  /** With the failure, and the DELs that are left, as the record is to keep it. */
  readonly left: DetachableAttachment;
}

/**
 * Detaches attachments, last first, even if others fail (multi-network specification v1.1 §7.2).
 * One that hangs uses only its share of the time or, with `first`, of the attempts.
 * @returns what could not be detached
 * @throws HostGoneError when the shim has gone: the record then still names the attachments
 */
export async function detachAll(
  ctx: CallContext,
  sandbox: SandboxToDetach,
  attachments: readonly DetachableAttachment[],
): Promise<Undetached[]> {
  const budget = sandbox.budget ?? delBudget(ctx);
  let left = attachments.length;
  const start = (sandbox.first ?? 0) % Math.max(1, left);
  const lastFirst = attachments.toReversed();
  const failures: Undetached[] = [];
  for (const each of [...lastFirst.slice(start), ...lastFirst.slice(0, start)]) {
    const share = sandbox.first === undefined ? budget.share(left--) : budget;
    const failure = await detach(ctx, { ...sandbox, budget: share }, each);
    if (failure === undefined) sandbox.onDetached?.(each);
    else failures.push(failure);
  }
  return failures;
}

/** The time for everything that a call detaches; it starts now. */
export function delBudget(ctx: CallContext): TimeBudget {
  return new TimeBudget(ctx.deps.clock, ctx.config.delBudgetMs);
}

async function detach(
  ctx: CallContext,
  sandbox: SandboxToDetach & { readonly budget: TimeBudget },
  attempted: DetachableAttachment,
): Promise<Undetached | undefined> {
  const { attachment } = attempted;
  const { displayName: network, ifName } = attachment;
  const { netns, record, path, ownPath, budget } = sandbox;
  const timeoutMs = ctx.config.delegateTimeoutMs;
  const calls = withoutReleases(attempted.dels).map((del) => ({
    ...withPath(del, path),
    timeoutMs,
  }));
  const failing = new FailingTeardown(ctx.deps, attachment);
  const { noteGivenUp } = failing;
  let rest = attempted;
  const onPluginDone = (): void => {
    rest = afterFirstPlugin(rest);
  };
  try {
    await detachChain(ctx, {
      ...{ network, ifName, netns, record, pod: record.pod, calls, budget, ownPath },
      ...{ attachment, noteGivenUp, onPluginDone },
    });
    await removeDeviceInfo(ctx, record.containerId, attachment);
    return undefined;
  } catch (cause) {
    if (cause instanceof HostGoneError) throw cause;
    const error = asCniError(withNetworkContext(cause, attachment));
    const state = sandbox.isRunning === true ? "owed" : attachment.state;
    const left = { ...attachment, state, teardown: failing.failed(error) };
    return { attempted, error, left: { ...rest, attachment: left } };
  }
}

/** A planned DEL that also finds its plugin in the directories of `path`. */
export function withPath(call: DelegateCall, path: readonly string[] = []): DelegateCall {
  const searchPath = extendedPath(call.searchPath, path);
  return { ...call, searchPath, env: { ...call.env, CNI_PATH: searchPath.join(":") } };
}
