import { isDeepStrictEqual } from "node:util";
import { parseJson } from "#cni/document.ts";
import { contextWithoutCall } from "#engine/call/call-context.ts";
import type { PodState } from "#engine/check/not-attached.ts";
import { configForCall } from "#engine/config.ts";
import type { HotPlugOptions } from "#engine/hotplug/hot-plug.ts";
import type { PodReports } from "#engine/hotplug/reports/pod-reports.ts";
import { loadUsable, type RunningSandboxes } from "#engine/hotplug/running-sandboxes.ts";
import {
  changeRecord,
  owe,
  payAfterAnswer,
  waitsForCall,
} from "#engine/network-status/status-writer.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, usableRecord } from "#engine/record/record.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { updateAddresses } from "./addresses.ts";
import { findLostInterfaces, type Inspection } from "./heal.ts";

const intact: Inspection = { lost: [], willHeal: false };

/** Looks into the network namespaces of running pods. */
export class Inspector {
  readonly #deps: EngineDeps;
  readonly #sandboxes: RunningSandboxes;
  readonly #reports: PodReports;

  constructor(deps: EngineDeps, sandboxes: RunningSandboxes, reports: PodReports) {
    this.#deps = deps;
    this.#sandboxes = sandboxes;
    this.#reports = reports;
  }

  /**
   * Looks for interfaces that have disappeared from a running pod, which become an event, and for
   * addresses that have changed, which its status then shows.
   * @returns the networks that lack theirs, and whether hot-plug is to attach some again
   * @throws CniError when the record or the configuration cannot be read, or the sandbox is in use;
   *   HostGoneError when the agent has gone
   */
  async inspect(
    pod: Pod,
    { hosts, conf }: Pick<HotPlugOptions, "hosts" | "conf">,
  ): Promise<Inspection> {
    const config = configForCall(this.#deps.config(), await conf());
    const record = await this.#sandboxes.recordOf(pod);
    const { inspect } = config;
    if (inspect.length === 0 || record === undefined || !hosts.isAvailable()) return intact;
    const sandbox = { pod, record, hosts, isInspection: true };
    return this.#sandboxes.run(config, sandbox, async (at) => {
      const { ctx, key, locks } = at;
      const stored = await loadUsable(this.#deps, key);
      if (stored === undefined) return intact;
      const updated = inspect.includes("addresses") ? await updateAddresses(at, stored) : undefined;
      // It takes the lock, which this holds.
      if (updated !== undefined) void payAfterAnswer(ctx, key, { locks });
      if (!inspect.includes("interfaces") && !inspect.includes("heal")) return intact;
      const found = await findLostInterfaces(at, updated ?? stored);
      if (found.lost.length > 0) this.#reports.report(pod, found.lost.join("; "), "lost");
      else this.#reports.forget(pod.uid, "lost");
      return found;
    });
  }

  /**
   * Publishes the status of an attached pod anew, if the pod shows another one and none is waiting
   * to be published. Nothing is executed in the sandbox.
   * @throws CniError when the record or the configuration cannot be read, or the record not written
   */
  async restoreStatus(pod: PodState, { conf }: Pick<HotPlugOptions, "conf">): Promise<void> {
    const ctx = contextWithoutCall(this.#deps, await conf());
    const found = await this.#sandboxes.recordOf(pod);
    if (found === undefined) return;
    const change = async (record: AttachmentRecord): Promise<AttachmentRecord | undefined> => {
      if (!usableRecord(record) || record.pendingStatus !== undefined) return undefined;
      const owed = await owe(ctx, record, { pod });
      const own = owed.pendingStatus?.[networkStatusAnnotation];
      const isRight = own === undefined || isSameStatus(pod.networkStatus ?? "", own);
      return isRight ? undefined : { ...record, ...owed };
    };
    const { records } = this.#deps;
    const { locks } = this.#sandboxes;
    const how = { locks, change, waits: waitsForCall };
    if ((await changeRecord({ records }, found, how)) === "changed")
      void payAfterAnswer(ctx, found, { locks });
  }
}

/** Others may write the same with other spaces. */
function isSameStatus(shown: string, own: string): boolean {
  try {
    return isDeepStrictEqual(parseJson(shown, "the status"), parseJson(own, "the status"));
  } catch {
    return false;
  }
}
