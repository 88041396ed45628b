import { type CniError, defectIn } from "#cni/error.ts";
import type { LockedSandbox } from "#engine/hotplug/running-sandboxes.ts";
import type { EventReason } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { HotPlugOperation } from "./outcome.ts";
import { failedText, type NamedAttachment } from "./problem-texts.ts";

const failureReasons = {
  add: "FailedAddingInterface",
  remove: "FailedRemovingInterface",
} as const satisfies Record<HotPlugOperation["op"], EventReason>;

/** Tells of each operation on a running sandbox: in the log, by an event, and in the pod's status. */
export class OperationLog {
  readonly operations: HotPlugOperation[] = [];
  readonly #sandbox: LockedSandbox;

  constructor(sandbox: LockedSandbox) {
    this.#sandbox = sandbox;
  }

  succeeded(op: HotPlugOperation["op"], { displayName: network, ifName }: NamedAttachment): void {
    const published = this.#publish();
    this.operations.push({ op, result: "success", network, ifName, published });
    const done = op === "add" ? "plugged a network" : "unplugged a network";
    this.#sandbox.ctx.logger.info({ network, ifName }, done);
  }

  failed(
    op: HotPlugOperation["op"],
    { displayName: network, ifName }: NamedAttachment,
    error: CniError,
  ): void {
    const text = failedText(op, error);
    const published = this.#publish();
    this.operations.push({ op, result: "error", network, ifName, error, published });
    const { code, reason } = error;
    const fields = omitUndefined({ network, ifName, code, reason, err: defectIn(error) });
    this.#sandbox.ctx.logger.error(fields, `cannot ${op} the network of a running pod: ${text}`);
    this.warn(op, text);
  }

  /** An event alone. */
  warn(op: HotPlugOperation["op"], message: string): void {
    const { ctx, pod } = this.#sandbox;
    ctx.deps.events.record(pod, { type: "Warning", reason: failureReasons[op], message });
  }

  /** @returns whether the pod shows its status */
  async #publish(): Promise<boolean> {
    const { ctx, pod, isStopping } = this.#sandbox;
    if (isStopping?.() === true) return false;
    const shown = ctx.deps.publisher.shown(pod, ctx.signal);
    return shown.then((failure) => failure === undefined).catch(() => false);
  }
}
