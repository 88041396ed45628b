import { type CniError, defectIn } from "#cni/error.ts";
import type { LockedSandbox } from "#engine/hotplug/running-sandboxes.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NamedAttachment } from "./conditions.ts";
import type { HotPlugOperation } from "./outcome.ts";

/** Tells of each operation on a running sandbox: in the log, and in the pod's status. */
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
    const published = this.#publish();
    this.operations.push({ op, result: "error", network, ifName, error, published });
    const { code, reason, message } = error;
    const fields = omitUndefined({ network, ifName, code, reason, err: defectIn(error) });
    this.#sandbox.ctx.logger.error(fields, `cannot ${op} the network of a running pod: ${message}`);
  }

  /** @returns whether the pod shows its status */
  async #publish(): Promise<boolean> {
    const { ctx, pod, isStopping } = this.#sandbox;
    if (isStopping?.() === true) return false;
    const shown = ctx.deps.publisher.shown(pod, ctx.signal);
    return shown.then((failure) => failure === undefined).catch(() => false);
  }
}
