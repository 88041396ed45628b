import { type CniError, defectIn } from "#cni/error.ts";
import type { LockedSandbox } from "#engine/hotplug/running-sandboxes.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NamedAttachment } from "./conditions.ts";
import type { HotPlugOperation } from "./outcome.ts";

/** A running sandbox, and what was done there. */
export interface SandboxToChange extends LockedSandbox {
  readonly operations: HotPlugOperation[];
}

/** Tells of an operation, or why it failed: in the list, in the log, and in the pod's status. */
export function noteOperation(
  sandbox: SandboxToChange,
  op: HotPlugOperation["op"],
  of: { readonly network: NamedAttachment; readonly error?: CniError | undefined },
): void {
  const { logger } = sandbox.ctx;
  const { network: named, error } = of;
  const { displayName: network, ifName } = named;
  const result: HotPlugOperation["result"] = error === undefined ? "success" : "error";
  const published = publish(sandbox);
  sandbox.operations.push(omitUndefined({ op, result, network, ifName, error, published }));
  if (error === undefined) {
    const done = op === "add" ? "plugged a network" : "unplugged a network";
    logger.info({ network, ifName }, done);
    return;
  }
  const { code, reason, message } = error;
  const fields = omitUndefined({ network, ifName, code, reason, err: defectIn(error) });
  logger.error(fields, `cannot ${op} the network of a running pod: ${message}`);
}

/** @returns whether the pod shows its status */
async function publish({ ctx, pod, isStopping }: LockedSandbox): Promise<boolean> {
  if (isStopping?.() === true) return false;
  const shown = ctx.deps.publisher.shown(pod, ctx.signal);
  return shown.then((failure) => failure === undefined).catch(() => false);
}
