import { asCniError, type CniError } from "#cni/error.ts";
import { AddRecord, withRoutes } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import { claimDevices } from "#engine/add/claim-devices.ts";
import {
  giveBackRoutes,
  restoreRoutes,
  routePlugged,
  routesAhead,
  routesOfSandbox,
} from "#engine/add/default-route/running-routes.ts";
import { emitAttached } from "#engine/add/events.ts";
import { missingInterfaces } from "#engine/add/kernel-interfaces.ts";
import { rollBack } from "#engine/add/roll-back.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { detachRunning } from "#engine/del/detach.ts";
import { isLatest } from "#engine/network-status/latest-sandbox.ts";
import { owe } from "#engine/network-status/status-writer.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { recordedAttached } from "#engine/plan/recorded-network.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import {
  type AttachmentRecord,
  type RecordedAttachment,
  usableRecord,
} from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachables,
  type StoredRecord,
} from "#engine/record/teardown-plan.ts";
import type { PlannedAddition } from "./plan-changes.ts";
import type { OperationLog } from "./reports/operation-log.ts";
import { notUnpluggedText } from "./reports/problem-texts.ts";
import { type LockedSandbox, saveAttachments } from "./running-sandboxes.ts";

/** A network to attach, and the attachment whose place it takes. */
interface NetworkToAttach extends Pick<PlannedAddition, "recordBytes" | "replaced"> {
  readonly planned: PlannedAttachment;
  /** Whether another interface has what it replaces: a failure does not leave the place to that. */
  readonly isMoved: boolean;
}

/**
 * The networks of a running sandbox. Attaches and detaches one at a time with the code of an ADD and
 * of a DEL; the record says so before the first plugin runs, and when the last one has ended.
 */
export class RunningNetworks {
  readonly #ctx: CallContext;
  readonly #sandbox: LockedSandbox;
  readonly #log: OperationLog;
  /** What was read last; undefined after an operation, which has written another. */
  #stored: StoredRecord | undefined;
  /** Whether a plugin may have made interfaces. */
  #mayHaveMade = false;

  constructor(ctx: CallContext, sandbox: LockedSandbox, log: OperationLog) {
    this.#ctx = ctx;
    this.#sandbox = sandbox;
    this.#log = log;
  }

  /** @throws SandboxUnavailableError when the sandbox has no record that can be changed any more */
  async load(): Promise<StoredRecord> {
    const { deps } = this.#ctx;
    const stored = await deps.records.load(this.#sandbox.key);
    const isUsable = stored !== undefined && usableRecord(stored.record);
    if (!isUsable || !(await isLatest(deps, stored.record)))
      throw new SandboxUnavailableError("gone", "the sandbox is not attached any more");
    this.#stored = stored;
    return stored;
  }

  /** The record as it is: with the sandbox's locks, only operations write it. @throws as {@link load} */
  async record(): Promise<AttachmentRecord> {
    return (this.#stored ?? (await this.load())).record;
  }

  /** The interfaces in the sandbox, with those that plugins have just made. @throws CniError 5 */
  async links(): Promise<ReadonlySet<string>> {
    if (!this.#mayHaveMade) return this.#sandbox.links;
    const { netns } = await this.record();
    const links = await sandboxLinks(this.#ctx, netns);
    return new Set(links.map(({ name }) => name));
  }

  /** Whether an attachment has, or may have, that interface. */
  async isRecorded(name: string): Promise<boolean> {
    const { attachments } = await this.record();
    return attachments.some((each) => each.ifName === name && each.state !== "detached");
  }

  /**
   * Detaches an attachment; one that fails is owed, and one that is replaced stays recorded until its
   * successor is.
   * @returns why it failed @throws HostGoneError when the agent has gone
   */
  detach(removed: RecordedAttachment, isReplaced: boolean): Promise<CniError | undefined> {
    return this.#try(() => this.#detach(removed, isReplaced));
  }

  /** Attaches a network, or leaves the sandbox as it was. @returns, @throws as {@link detach} */
  attach(network: NetworkToAttach): Promise<CniError | undefined> {
    this.#mayHaveMade = true;
    return this.#try(() => this.#attach(network));
  }

  async #detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const { ifName } = removed;
    const { path } = this.#sandbox;
    const { record, ...stored } = await this.load();
    const isDone = removed.state === "detached";
    if (isDone && isReplaced) return;
    const all = detachables({ record, ...stored });
    const own = all.filter(({ attachment }) => attachment.ifName === ifName);
    const sandbox = { record, netns: record.netns, path };
    const [failure] = isDone ? [] : await detachRunning(this.#ctx, sandbox, own);
    if (failure !== undefined) {
      const { item, error } = failure;
      const owed = all.map((each) => (own.includes(each) ? item : each));
      await saveAttachments(this.#ctx, record, owed);
      throw error;
    }
    const left = all.filter((each) => !own.includes(each));
    const recorded = left
      .map(({ attachment }) => attachment)
      .filter(({ state }) => state !== "detached");
    const attached = this.#attachedOf(recorded);
    const routed = await giveBackRoutes(this.#ctx, record.netns, { attached, recorded });
    const routes = { changed: routed, timeoutMs: this.#ctx.config.delegateTimeoutMs };
    const changed = all.flatMap((each) => {
      if (own.includes(each)) return isReplaced ? detached(each) : [];
      return withRoutes(record, each, routes);
    });
    const attachments = changed.map(({ attachment }) => attachment);
    const owed = await owe(this.#ctx, { ...record, attachments }, { isShown: true });
    await saveAttachments(this.#ctx, { ...record, ...owed }, changed);
    if (isDone) return;
    this.#log.succeeded("remove", removed);
    const message = `Remove ${ifName} from ${removed.displayName}`;
    const event = { type: "Normal", reason: "RemovedInterface", message } as const;
    this.#ctx.deps.events.record(this.#sandbox.pod, event);
  }

  /** The record names the network, durably, before its first plugin runs. */
  async #attach({ planned, recordBytes, replaced, isMoved }: NetworkToAttach): Promise<void> {
    const ctx = this.#ctx;
    const stored = await this.load();
    const { attachments, ...own } = stored.record;
    const { netns } = own;
    const earlier = this.#attachedOf(attachments);
    const all = detachables(stored);
    const predecessor = all.find(
      ({ attachment: { ifName, state } }) => ifName === replaced?.ifName && state === "detached",
    );
    const record = new AddRecord(ctx, own, {
      attachments: [planned],
      earlier: all.filter((each) => each !== predecessor),
      predecessor: isMoved ? undefined : predecessor,
    });
    const before = await routesOfSandbox(ctx, netns);
    record.noteRoutes(routesAhead(before, earlier));
    await record.updateAhead();
    await ctx.deps.records.flush();
    try {
      await claimDevices(ctx, own, [planned]);
      const networks = { attachments: [planned], recordBytes };
      const { attached, kernel } = await attachNetworks(ctx, record, networks);
      const present = await kernel;
      const [added] = attached as readonly [Attached];
      const plugged = { before, earlier, added, replaced };
      const routed = await routePlugged(ctx, netns, plugged);
      record.noteRoutes(routed.earlier);
      const userSpaceInterfaces = missingInterfaces(added.result, present);
      record.noteAttached(0, { ...routed.added, userSpaceInterfaces });
      await record.update(await owe(ctx, { ...own, attachments: record.attachments }));
      emitAttached(ctx, this.#sandbox.pod, [routed.added]);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      record.noteRoutes(earlier);
      const owed = await rollBack(ctx, record);
      for (const each of owed) {
        ctx.logger.error({ err: each }, "cannot roll back the attachment, which stays recorded");
        this.#log.warn("remove", notUnpluggedText(each));
      }
      await restoreRoutes(ctx, netns, before);
      throw error;
    }
  }

  #attachedOf(attachments: readonly RecordedAttachment[]): Attached[] {
    return attachments.flatMap((each) => {
      const { state, result } = each;
      if (state !== "attached" || result === undefined) return [];
      return recordedAttached({ ...each, result }, this.#ctx.config);
    });
  }

  /** Carries out an operation. @returns the error @throws HostGoneError when the agent has gone */
  async #try(operation: () => Promise<void>): Promise<CniError | undefined> {
    try {
      await operation();
      return undefined;
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      return asCniError(error);
    } finally {
      this.#stored = undefined;
    }
  }
}

/** An attachment as the record has it until its successor is there. */
function detached({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  const { teardown: _, ...own } = attachment;
  return { attachment: { ...own, state: "detached" }, dels };
}
