import { asCniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { isLatest } from "#engine/network-status/latest-sandbox.ts";
import { payAfterAnswer } from "#engine/network-status/pending-status.ts";
import type { PendingStatus } from "#engine/network-status/publish-status.ts";
import { type EventReason, HostGoneError, type Pod } from "#engine/ports.ts";
import type { RecordedAttachment, RecordKey } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { usableRecord } from "./desired-networks.ts";
import { type SandboxHost, SandboxUnavailableError } from "./sandbox-hosts.ts";
import { unplug } from "./unplug.ts";

/** One network that was plugged or unplugged, or should have been. */
export interface HotPlugOperation {
  readonly op: "add" | "remove";
  readonly result: "success" | "error";
  readonly network: string;
  readonly ifName: string;
  /** Of the error. */
  readonly message?: string;
  /** Resolves when the pod's status shows it, or the status is left to a later attempt. */
  readonly published: Promise<void>;
}

/** A running sandbox whose shim lock the caller holds, as the engine's. */
export interface LockedSandbox extends Pick<SandboxHost, "links" | "path"> {
  readonly pod: Pod;
  readonly key: RecordKey;
  readonly locks: SandboxLocks;
  /** An interface to plug anew with its present definition. */
  readonly refreshed?: string | undefined;
  /** Whether this process ends: a successor may attach a newer sandbox of the pod meanwhile. */
  readonly isStopping?: (() => boolean) | undefined;
}

const failureReasons = {
  add: "FailedAddingInterface",
  remove: "FailedRemovingInterface",
} as const satisfies Record<HotPlugOperation["op"], EventReason>;

/** Plugs and unplugs one network after another, with events and a status for each. */
export class Steps {
  readonly operations: HotPlugOperation[] = [];
  readonly ctx: CallContext;
  readonly sandbox: LockedSandbox;

  constructor(ctx: CallContext, sandbox: LockedSandbox) {
    this.ctx = ctx;
    this.sandbox = sandbox;
  }

  /** @throws SandboxUnavailableError when the sandbox has no record that can be changed */
  async load(): Promise<StoredRecord> {
    const { deps } = this.ctx;
    const stored = await deps.records.load(this.sandbox.key);
    const isUsable = stored !== undefined && usableRecord(stored.record);
    if (isUsable && (await isLatest(deps, stored.record))) return stored;
    throw new SandboxUnavailableError("gone", "the sandbox is not attached any more");
  }

  async unplug({ displayName, ifName }: RecordedAttachment): Promise<void> {
    const { pod, path } = this.sandbox;
    const current = await this.load();
    await this.run("remove", { displayName, ifName }, async () => {
      const status = await unplug(this.ctx, current, { ifName, path });
      const message = `Remove ${ifName} from ${displayName}`;
      this.ctx.deps.events.record(pod, { type: "Normal", reason: "RemovedInterface", message });
      return status;
    });
  }

  /** @throws HostGoneError when the agent has gone; another failure becomes an event */
  async run(
    op: HotPlugOperation["op"],
    { displayName: network, ifName }: Pick<RecordedAttachment, "displayName" | "ifName">,
    step: () => Promise<PendingStatus>,
  ): Promise<void> {
    const { deps, logger } = this.ctx;
    const fields = { network, ifName };
    try {
      const { key, locks, isStopping } = this.sandbox;
      await step();
      const isLeft = isStopping?.() === true;
      const published = isLeft ? Promise.resolve() : payAfterAnswer(this.ctx, key, { locks });
      this.operations.push({ op, result: "success", ...fields, published });
      logger.info(fields, op === "add" ? "plugged a network" : "unplugged a network");
    } catch (err) {
      if (err instanceof HostGoneError) throw err;
      const { message } = asCniError(err);
      const published = Promise.resolve();
      this.operations.push({ op, result: "error", ...fields, message, published });
      logger.error({ ...fields, err }, `cannot ${op} the network of a running pod: ${message}`);
      const reason = failureReasons[op];
      deps.events.record(this.sandbox.pod, { type: "Warning", reason, message });
    }
  }
}
