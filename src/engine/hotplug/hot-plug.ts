import { asCniError, CniError } from "#cni/error.ts";
import { sandboxFields } from "#engine/call/call-context.ts";
import { notAttachedGraceMs } from "#engine/check/not-attached.ts";
import { configForCall, type EngineConfig } from "#engine/config.ts";
import { configOfNamespace } from "#engine/namespace-rules.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { Condition } from "#lib/condition.ts";
import { LruMap } from "#lib/lru-map.ts";
import { changeNetworks } from "./change-networks.ts";
import { changesOf, defaultNetworkEdit, isSettled, mayHotPlug } from "./desired-networks.ts";
import { conditionOf, notUnplugged } from "./reports/conditions.ts";
import { type HotPlugOutcome, problemsOf } from "./reports/outcome.ts";
import type { HotPlugOptions, RunningSandboxes, SandboxToRun } from "./running-sandboxes.ts";

/** Edited pods without a record that this process remembers. */
const maxUnrecorded = 1000;
const settled: HotPlugOutcome = { state: "settled", operations: [] };
const waiting: HotPlugOutcome = { state: "waiting", operations: [] };
const failed: HotPlugOutcome = { state: "failed", operations: [] };
const onHostNetwork =
  "the pod uses the network of its node (hostNetwork: true), so its networks annotation has no effect";
const unrecorded =
  "the annotation was edited, but Plexus has no record that it attached this pod, so it changes " +
  "none of its networks; delete the pod, so that it starts anew with them (docs/user/hot-plug.md)";

/** Plugs and unplugs networks of running pods whose annotation was edited. */
export class HotPlug {
  readonly #sandboxes: RunningSandboxes;
  /** By the UID of an edited pod without a record: since when it has been seen, by the clock. */
  readonly #unrecorded = new LruMap<number>(maxUnrecorded);

  constructor(sandboxes: RunningSandboxes) {
    this.#sandboxes = sandboxes;
  }

  /**
   * Gives a pod the networks of its annotation, once, and states what it finds. A refresh concerns one
   * of them, so it states nothing.
   * @throws CniError when the pod, its record or the configuration cannot be read
   */
  async reconcile(watched: Pod, options: HotPlugOptions): Promise<HotPlugOutcome> {
    const found: Condition[] = [];
    const state = (all: readonly Condition[]): void => {
      if (options.refreshed === undefined) this.#sandboxes.findings.state(watched, "networks", all);
    };
    try {
      const outcome = await this.#reconcile(watched, options, found);
      found.push(...problemsOf(outcome).map(conditionOf));
      // What another operation delays stays as it is.
      if (outcome.state !== "busy") state(found);
      return outcome;
    } catch (error) {
      state([...found, { ...conditionOf({ error: asCniError(error) }), isQuiet: true }]);
      throw error;
    }
  }

  async #reconcile(
    watched: Pod,
    options: HotPlugOptions,
    found: Condition[],
  ): Promise<HotPlugOutcome> {
    const { deps } = this.#sandboxes;
    const record = await this.#sandboxes.recordOf(watched);
    const ofDaemon = configForCall(deps.config(), {});
    if (!mayHotPlug(ofDaemon, watched.namespace)) {
      const left = record === undefined ? [] : changesOf(ofDaemon, record, watched).removals;
      found.push(...left.map(notUnplugged));
      return settled;
    }
    const ofNode = configForCall(deps.config(), await options.conf());
    const config = configOfNamespace(ofNode, watched.namespace);
    const mayBeUnchanged = record !== undefined && options.refreshed === undefined;
    if (mayBeUnchanged && isUnchanged(config, record, watched)) return settled;
    // A starting pod, or one that Plexus did not attach.
    if (record === undefined && !options.isEdit) return waiting;
    const pod = await options.read(watched);
    if (pod === undefined || pod.isTerminating) return settled;
    if (pod.phase !== "Running") return waiting;
    if (pod.hostNetwork) return rejected(new CniError("InvalidRequest", onHostNetwork));
    if (record === undefined) return this.#findUnrecorded(pod, found);
    this.#unrecorded.delete(pod.uid);
    try {
      return await this.#compare(config, { ...options, pod, record }, found);
    } catch (error) {
      return this.#fail(record, error);
    }
  }

  async #compare(
    config: EngineConfig,
    sandbox: HotPlugOptions & SandboxToRun,
    found: Condition[],
  ): Promise<HotPlugOutcome> {
    const { pod, record, refreshed } = sandbox;
    found.push(...[defaultNetworkEdit(config, record, pod) ?? []].flat());
    const changes = changesOf(config, record, { ...pod, refreshed });
    const { additions, removals, invalid } = changes;
    if (additions.length + removals.length === 0)
      return invalid === undefined ? settled : rejected(invalid);
    return this.#sandboxes.run(config, sandbox, (at) => changeNetworks({ ...sandbox, ...at }));
  }

  #fail(record: AttachmentRecord, error: unknown): HotPlugOutcome {
    const problems = [{ error: asCniError(error) }];
    if (error instanceof HostGoneError) return { ...failed, problems };
    if (error instanceof SandboxUnavailableError && error.why === "busy")
      return { state: "busy", operations: [], problems };
    const fields = { ...sandboxFields(record), err: error };
    this.#sandboxes.deps.logger.warn(fields, "cannot change the networks of a running pod");
    return { ...failed, problems };
  }

  /** A running pod has no record while its sandbox is made anew, so it is stated later. */
  #findUnrecorded(pod: Pod, found: Condition[]): HotPlugOutcome {
    const now = this.#sandboxes.deps.clock();
    if (now - this.#unrecorded.getOrMake(pod.uid, () => now) < notAttachedGraceMs) return failed;
    found.push({ reason: "NotManaged", message: unrecorded });
    return waiting;
  }
}

/** The pod keeps what it has until it is edited. */
function rejected(error: CniError): HotPlugOutcome {
  return { ...settled, problems: [{ error }] };
}

function isUnchanged(config: EngineConfig, record: AttachmentRecord, pod: Pod): boolean {
  if (defaultNetworkEdit(config, record, pod) !== undefined) return false;
  return isSettled(changesOf(config, record, pod));
}
