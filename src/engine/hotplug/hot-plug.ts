import { asCniError, CniError } from "#cni/error.ts";
import { sandboxFields } from "#engine/call/call-log.ts";
import { notAttachedGraceMs } from "#engine/check/not-attached.ts";
import { configForCall, type EngineConfig } from "#engine/config.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { LruMap } from "#lib/lru-map.ts";
import { changeNetworks } from "./change-networks.ts";
import { changesOf, defaultNetworkEdit, isSettled, mayHotPlug } from "./desired-networks.ts";
import { FailedSwapError, FailedSwaps } from "./failed-swaps.ts";
import type { HotPlugOutcome } from "./reports/outcome.ts";
import { noAgentText, rejectedText, unknownText } from "./reports/problem-texts.ts";
import type { HotPlugOptions, RunningSandboxes, SandboxToRun } from "./running-sandboxes.ts";

/** Edited pods without a record that this process remembers. */
const maxUnrecorded = 1000;
const settled: HotPlugOutcome = { state: "settled", operations: [] };
const waiting: HotPlugOutcome = { state: "waiting", operations: [] };
const failed: HotPlugOutcome = { state: "failed", operations: [] };
const onHostNetwork =
  "the pod uses the network of its node (hostNetwork: true), so its networks annotation has no effect";
const notManaged =
  "the annotation was edited, but Plexus has no record that it attached this pod, so it changes " +
  "none of its networks; delete the pod, so that it starts anew with them (docs/user/hot-plug.md)";

/** Plugs and unplugs networks of running pods whose annotation was edited. */
export class HotPlug {
  readonly #sandboxes: RunningSandboxes;
  /** By the UID of an edited pod without a record: since when it has been seen, by the clock. */
  readonly #unrecorded = new LruMap<number>(maxUnrecorded);
  readonly #failedSwaps: FailedSwaps;

  constructor(sandboxes: RunningSandboxes) {
    this.#sandboxes = sandboxes;
    this.#failedSwaps = new FailedSwaps(sandboxes.deps.clock);
  }

  /**
   * Gives a pod the networks of its annotation, once; failures are recorded as events.
   * @throws CniError when the pod, its record or the configuration cannot be read
   */
  async reconcile(watched: Pod, options: HotPlugOptions): Promise<HotPlugOutcome> {
    const { deps } = this.#sandboxes;
    if (!mayHotPlug(configForCall(deps.config(), {}), watched.namespace)) return settled;
    const config = configForCall(deps.config(), await options.conf());
    const record = await this.#sandboxes.recordOf(watched);
    if (options.refreshed !== undefined) this.#failedSwaps.forget(watched);
    else if (record !== undefined && isUnchanged(config, record, watched))
      return this.#settle(watched);
    // A starting pod, or one that Plexus did not attach.
    if (record === undefined && !options.isEdit) return waiting;
    const pod = await options.read(watched);
    if (pod === undefined || pod.isTerminating) return settled;
    if (pod.phase !== "Running") return waiting;
    if (pod.hostNetwork)
      return this.#reject(pod, new CniError("InvalidRequest", onHostNetwork), onHostNetwork);
    if (record === undefined) return this.#reportUnrecorded(pod);
    this.#unrecorded.delete(pod.uid);
    try {
      return await this.#compare(config, { ...options, pod, record });
    } catch (error) {
      return this.#fail(pod, record, error);
    }
  }

  async #compare(
    config: EngineConfig,
    sandbox: HotPlugOptions & SandboxToRun,
  ): Promise<HotPlugOutcome> {
    const { pod, record, refreshed } = sandbox;
    const { reports } = this.#sandboxes;
    const edit = defaultNetworkEdit(config, record, pod);
    if (edit !== undefined) reports.report(pod, edit, "default");
    const changes = changesOf(config, record, { ...pod, refreshed });
    if (changes.unknown.length > 0) reports.report(pod, unknownText(changes.unknown), "unknown");
    const { additions, removals, invalid } = changes;
    if (additions.length + removals.length === 0)
      return invalid === undefined ? this.#settle(pod) : this.#reject(pod, invalid);
    const outcome = await this.#sandboxes.run(config, sandbox, (at) =>
      changeNetworks({ ...sandbox, ...at, failedSwaps: this.#failedSwaps }),
    );
    const { state, problems = [] } = outcome;
    const lasting = problems.filter(
      ({ error }) => !error.transient && !(error instanceof FailedSwapError),
    );
    if (state === "settled") this.#settle(pod);
    else if (lasting.length > 0) reports.report(pod, rejectedText(lasting));
    return outcome;
  }

  /** What does not end by itself becomes an event, for people to act. */
  #fail(pod: Pod, record: AttachmentRecord, error: unknown): HotPlugOutcome {
    const problem = asCniError(error);
    const problems = [{ error: problem }];
    if (error instanceof HostGoneError) return { ...failed, problems };
    const why = error instanceof SandboxUnavailableError ? error.why : undefined;
    if (why === "busy") return { state: "busy", operations: [], problems };
    if (why === "gone") return waiting;
    const fields = { ...sandboxFields(record), err: error };
    const { deps, reports } = this.#sandboxes;
    deps.logger.warn(fields, "cannot change the networks of a running pod");
    if (!problem.transient || why === "noAgent")
      reports.report(pod, why === "noAgent" ? noAgentText(problem) : rejectedText(problems));
    return { ...failed, problems };
  }

  /** A running pod has no record while its sandbox is made anew, so the event comes later. */
  #reportUnrecorded(pod: Pod): HotPlugOutcome {
    const now = this.#sandboxes.deps.clock();
    if (now - this.#unrecorded.getOrMake(pod.uid, () => now) < notAttachedGraceMs) return failed;
    this.#sandboxes.reports.report(pod, notManaged, "record");
    return waiting;
  }

  #settle({ uid }: Pod): HotPlugOutcome {
    this.#sandboxes.reports.forget(uid);
    return settled;
  }

  #reject(pod: Pod, error: CniError, text = rejectedText([{ error }])): HotPlugOutcome {
    this.#sandboxes.reports.report(pod, text);
    return { ...settled, problems: [{ error }] };
  }
}

function isUnchanged(config: EngineConfig, record: AttachmentRecord, pod: Pod): boolean {
  if (defaultNetworkEdit(config, record, pod) !== undefined) return false;
  const changes = changesOf(config, record, pod);
  return isSettled(changes) && changes.unknown.length === 0;
}
