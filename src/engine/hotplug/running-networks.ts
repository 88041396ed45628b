import type { CniError } from "#cni/error.ts";
import { AddRecord } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import {
  giveBackRoutes,
  restoreRoutes,
  routePlugged,
  routesAhead,
  routesOfSandbox,
} from "#engine/add/default-route/running-routes.ts";
import { emitAttached } from "#engine/add/events.ts";
import type { KernelInterfaces } from "#engine/add/kernel-interfaces.ts";
import { rollBack } from "#engine/add/roll-back.ts";
import { collectErrors } from "#engine/call/failures.ts";
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
import type { LockedSandbox } from "./running-sandboxes.ts";

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
  readonly #sandbox: LockedSandbox;
  readonly #log: OperationLog;
  /** What was read last; undefined after an operation, which has written another. */
  #stored: StoredRecord | undefined;
  /** The interfaces that it had last; undefined when a plugin may have made others. */
  #links: KernelInterfaces;

  constructor(sandbox: LockedSandbox, log: OperationLog) {
    this.#sandbox = sandbox;
    this.#links = sandbox.links;
    this.#log = log;
  }

  /** @throws SandboxUnavailableError when the sandbox has no record that can be changed any more */
  async load(): Promise<StoredRecord> {
    const { ctx, key } = this.#sandbox;
    const stored = await ctx.deps.records.load(key);
    const isUsable = stored !== undefined && usableRecord(stored.record);
    if (!isUsable || !(await isLatest(ctx.deps, stored.record)))
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
    if (this.#links !== undefined) return this.#links;
    const { netns } = await this.record();
    const links = await sandboxLinks(this.#sandbox.ctx, netns);
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
    this.#links = undefined;
    return this.#try(() => this.#attach(network));
  }

  async #detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const { ctx, path, pod } = this.#sandbox;
    const { displayName, ifName, state } = removed;
    const stored = await this.load();
    const { netns } = stored.record;
    const isDone = state === "detached";
    if (isDone && isReplaced) return;
    const earlier = detachables(stored);
    const record = new AddRecord(ctx, stored.record, { attachments: [], earlier });
    if (!isDone) {
      const own = earlier.filter(({ attachment }) => attachment.ifName === ifName);
      const [failure] = await detachRunning(ctx, { record: stored.record, netns, path }, own);
      if (failure !== undefined) {
        record.noteEarlier(ifName, () => [failure.item]);
        await record.update();
        throw failure.error;
      }
    }
    record.noteEarlier(ifName, (each) => (isReplaced ? [detached(each)] : []));
    const recorded = record.current.attachments.filter((each) => each.state !== "detached");
    const attached = this.#attached(recorded);
    record.noteRoutes(await giveBackRoutes(ctx, netns, { attached, recorded }));
    await record.update(await owe(ctx, record.current, { isShown: true }));
    if (isDone) return;
    this.#log.succeeded("remove", removed);
    const message = `Remove ${ifName} from ${displayName}`;
    ctx.deps.events.record(pod, { type: "Normal", reason: "RemovedInterface", message });
  }

  /** The record names the network, durably, before its first plugin runs. */
  async #attach({ planned, recordBytes, replaced, isMoved }: NetworkToAttach): Promise<void> {
    const { ctx, pod } = this.#sandbox;
    const stored = await this.load();
    const { netns, attachments } = stored.record;
    const earlier = this.#attached(attachments);
    const all = detachables(stored);
    const predecessor = all.find(
      ({ attachment: { ifName, state } }) => ifName === replaced?.ifName && state === "detached",
    );
    const record = new AddRecord(ctx, stored.record, {
      attachments: [planned],
      earlier: all.filter((each) => each !== predecessor),
      predecessor: isMoved ? undefined : predecessor,
    });
    const before = await routesOfSandbox(ctx, netns);
    record.noteRoutes(routesAhead(before, earlier));
    await record.updateAhead();
    await ctx.deps.records.flush();
    try {
      const networks = { attachments: [planned], recordBytes };
      const { attached, kernel } = await attachNetworks(ctx, record, networks);
      this.#links = await kernel;
      const [added] = attached as readonly [Attached];
      const routed = await routePlugged(ctx, netns, { before, earlier, added, replaced });
      record.noteRoutes(routed.earlier);
      record.noteAttached(0, routed.added, this.#links);
      await record.update(await owe(ctx, record.current));
      emitAttached(ctx, pod, [routed.added]);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      this.#links = undefined;
      record.noteRoutes(earlier);
      for (const err of await rollBack(ctx, record)) {
        ctx.logger.error({ err }, "cannot roll back the attachment, which stays recorded");
        this.#log.warn("remove", notUnpluggedText(err));
      }
      await restoreRoutes(ctx, netns, before);
      throw error;
    }
  }

  #attached(attachments: readonly RecordedAttachment[]): Attached[] {
    return attachments.flatMap((each) => {
      const { state, result } = each;
      if (state !== "attached" || result === undefined) return [];
      return recordedAttached({ ...each, result }, this.#sandbox.ctx.config);
    });
  }

  /** Carries out an operation. @returns the error @throws HostGoneError when the agent has gone */
  async #try(operation: () => Promise<void>): Promise<CniError | undefined> {
    const [failure] = await collectErrors([operation], (each) => each());
    this.#stored = undefined;
    return failure;
  }
}

/** An attachment as the record has it until its successor is there. */
function detached({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  const { teardown: _, ...own } = attachment;
  return { attachment: { ...own, state: "detached" }, dels };
}
