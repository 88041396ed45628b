import { asCniError } from "#cni/error.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import { parsePluginRequest, sameNetnsError } from "#cni/plugin/parse-request.ts";
import type { PluginRequest } from "#cni/plugin/request.ts";
import { printResult } from "#cni/result/format.ts";
import { add } from "#engine/add/add.ts";
import {
  type CallContext,
  type CallTools,
  callContext,
  callTools,
  contextWithoutCall,
  sandboxFields,
} from "#engine/call/call-context.ts";
import { PodFindings } from "#engine/call/pod-findings.ts";
import { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { check } from "#engine/check/check.ts";
import { defaultNetworkDels } from "#engine/del/default-plan.ts";
import { del } from "#engine/del/del.ts";
import { rewordedForDel } from "#engine/del/reworded.ts";
import { CallHistory } from "#engine/explain/call-history.ts";
import type { Failure } from "#engine/explain/explain-error.ts";
import { type ExplainOptions, explainPod } from "#engine/explain/explain-pod.ts";
import type { Explanation } from "#engine/explain/explanation.ts";
import { gc } from "#engine/gc/gc.ts";
import { HotPlug } from "#engine/hotplug/hot-plug.ts";
import type { Inspection } from "#engine/hotplug/inspection/heal.ts";
import { inspect } from "#engine/hotplug/inspection/inspector.ts";
import { outdatedInterfaces } from "#engine/hotplug/outdated.ts";
import { type HotPlugOptions, RunningSandboxes } from "#engine/hotplug/running-sandboxes.ts";
import { inventory, type NetworkOnNode, type NodeView } from "#engine/inventory/inventory.ts";
import { leftoverReason, nodeNow } from "#engine/leftovers/leftover.ts";
import { type LeftoverOutcome, Leftovers } from "#engine/leftovers/leftovers.ts";
import { desiredStatus } from "#engine/network-status/desired-status.ts";
import { reportBroken } from "#engine/ports/assertions.ts";
import { type Call, type CallOutcome, netnsStateOf, type ServedCall } from "#engine/ports/call.ts";
import type { CalledPod, Pod, PodName } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type CallHost, HostGoneError } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { status } from "#engine/status/status.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { answerOf, logCall } from "./call-log.ts";
import { configForCall, type EngineConfig } from "./config.ts";
import { configOfNamespace } from "./namespace-rules.ts";

/** How long one call may work on a leftover of another sandbox. */
const callBudgetMs = 5000;
/** After a DEL that leaves nothing, an older list of leftovers is replaced. */
const leftoverListMaxMs = 60_000;
/** How long an agent may work on one. No runtime waits for it. */
const agentBudgetMs = 30_000;

/** Serves CNI calls: every decision of Plexus is made below this class. */
export class Engine {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  readonly #leftovers: Leftovers;
  readonly #sandboxes: RunningSandboxes;
  readonly #hotPlug: HotPlug;
  readonly history = new CallHistory();
  /** What is found about running pods. */
  readonly findings: PodFindings;
  /** The node's, or of the last call that needed its default network. */
  #conf: JsonObject = {};

  constructor(deps: EngineDeps) {
    this.#deps = deps;
    this.#locks = new SandboxLocks(deps);
    this.#leftovers = new Leftovers(deps, this.#locks);
    this.findings = new PodFindings(deps.events);
    this.#sandboxes = new RunningSandboxes(deps, this.#locks, this.findings);
    this.#hotPlug = new HotPlug(this.#sandboxes);
    deps.publisher.follow((...of) => desiredStatus(deps, ...of));
  }

  /** Serves one call; failures become answers. @throws HostGoneError when the shim has gone */
  async handle(call: Call, host: CallHost): Promise<ServedCall> {
    const { clock, metrics } = this.#deps;
    const began = this.#deps.now();
    const tools = callTools(this.#deps, host);
    metrics.requestStarted(call.command);
    if (call.startedUs > 0) tools.trace.add("connect", tools.startedAt - call.startedUs / 1000);
    const outcome = await this.#serve(call, tools);
    const finished = { ...tools, call, outcome, milliseconds: clock() - tools.startedAt };
    const log = (): void => logCall(finished, this.#deps);
    const afterAnswer = (): void => {
      tools.noteAnswered();
      this.#refreshLeftovers(call, outcome);
    };
    if (outcome.status === "failed" && outcome.error.cause instanceof HostGoneError) {
      log();
      afterAnswer();
      throw outcome.error.cause;
    }
    // A failure without a shim says nothing of the pod: after a pause, plexusd reads many late calls.
    if (outcome.status !== "failed" || !host.gone.aborted) this.history.note(call, outcome, began);
    return { answer: answerOf(finished), log, afterAnswer };
  }

  async #serve(call: Call, tools: CallTools): Promise<CallOutcome> {
    try {
      const { env, stdin } = call;
      const request = await tools.trace.phase("parse", () => parsePluginRequest(env, stdin));
      const ctx = this.#context(call, request, tools);
      const result = await this.#execute(ctx, request);
      await this.#retryLeftoverAfter(ctx, call);
      if (["ADD", "STATUS"].includes(request.command)) this.#conf = request.conf.raw;
      if (request.command === "STATUS" || call.pod !== undefined)
        this.#sandboxes.noteRuntime(request);
      return { status: "succeeded", stdout: result === undefined ? "" : printResult(result) };
    } catch (cause) {
      const known = asCniError(cause);
      const error = call.command === "DEL" ? rewordedForDel(known) : known;
      return { status: "failed", stdout: formatErrorOutput(error, call.stdin), error };
    }
  }

  #context(call: Call, request: PluginRequest, tools: CallTools): CallContext {
    const logger = this.#deps.logger.child(sandboxFields(call));
    const netnsState = netnsStateOf(call, request);
    // An error of CNI's reference skeleton. DEL ignores it: nothing there can be detached.
    if (request.command === "ADD" && netnsState === "own") throw sameNetnsError();
    return callContext(this.#deps, tools, {
      config: configOfNamespace(
        this.#config(request.command, request.conf.raw, logger),
        call.pod?.namespace,
      ),
      logger,
      netnsState,
      netnsProcess: call.netnsProcess,
      links: call.links,
      shimStartedUs: call.startedUs,
      busy: call.busy,
    });
  }

  /** DEL needs the record only, so it succeeds with any configuration of the runtime. */
  #config(command: string, conf: JsonObject, logger: Logger): EngineConfig {
    try {
      return configForCall(this.#deps.config(), conf);
    } catch (error) {
      if (command !== "DEL") throw error;
      logger.warn({ err: error }, "DEL ignores an invalid network configuration");
      return configForCall(this.#deps.config(), {});
    }
  }

  async #execute(ctx: CallContext, request: PluginRequest): Promise<JsonObject | undefined> {
    // STATUS waits for no other call.
    if (request.command === "STATUS") return void (await status(ctx, request));
    if (request.command === "GC") return void (await gc(ctx, request, this.#locks));
    const { containerId } = request;
    using _lock = await ctx.trace.phase("lock", () => this.#locks.acquire(containerId));
    if (request.command === "ADD") return await add(ctx, request);
    if (request.command === "CHECK") return void (await check(ctx, request));
    if ((await del(ctx, request)) !== "late") await this.#expectNoRecord(ctx, request);
    return undefined;
  }

  /** Under the sandbox's lock: no other process makes its record meanwhile. */
  async #expectNoRecord(ctx: CallContext, key: RecordKey): Promise<void> {
    const stored = await ctx.deps.records.load(key).catch(() => undefined);
    if (stored === undefined) return;
    const { containerId, ifName } = key;
    reportBroken({ ...ctx.deps, logger: ctx.logger }, "record_after_del", { containerId, ifName });
  }

  /** Retries a leftover before the call is answered, while its shim can still execute plugins. */
  async #retryLeftoverAfter(ctx: CallContext, { command, path, pod }: Call): Promise<void> {
    if (this.#deps.leftoverDuty === "none" || !["DEL", "STATUS", "GC"].includes(command)) return;
    using collection = this.#locks.all.tryShared();
    if (collection === undefined) return;
    const options = { path, budgetMs: callBudgetMs, pod, usesLastList: command === "DEL" };
    await ctx.trace.phase("leftovers", () => this.#leftovers.retryOne(ctx, options));
  }

  /** Lists the records after a DEL, so that none waits for it. */
  #refreshLeftovers({ command }: Call, { status }: CallOutcome): void {
    if (this.#deps.leftoverDuty !== "daemon" || command !== "DEL") return;
    void this.#leftovers.refresh(status === "failed" ? 0 : leftoverListMaxMs);
  }

  /** {@link Leftovers.retryOne} through `plexus agent`, whose environment is in `call`. */
  retryLeftover({ path }: Call, host: CallHost): Promise<boolean> {
    const options = { path, budgetMs: agentBudgetMs };
    return this.#byAgent(host, (ctx) => this.#leftovers.retryOne(ctx, options));
  }

  /** {@link Leftovers.retryAll} through such a shim. */
  retryAllLeftovers({ path }: Call, host: CallHost): Promise<LeftoverOutcome[]> {
    const options = { path, budgetMs: agentBudgetMs };
    return this.#byAgent(host, (ctx) => this.#leftovers.retryAll(ctx, options));
  }

  async #byAgent<T>(host: CallHost, step: (ctx: CallContext) => Promise<T>): Promise<T> {
    const { logger, metrics } = this.#deps;
    const tools = callTools(this.#deps, host);
    const config = this.#config("DEL", this.#conf, logger);
    using _collection = await this.#locks.all.shared();
    try {
      return await step(callContext(this.#deps, tools, { config, logger, netnsState: "none" }));
    } finally {
      tools.delegates.recordMetrics(metrics);
    }
  }

  /** The records that do not say that they are leftovers. @throws Error when they cannot be read */
  async recordsInUse(): Promise<AttachmentRecord[]> {
    const { records } = await this.#deps.records.list();
    const now = nodeNow(this.#deps, records);
    return records.filter((record) => leftoverReason(record, now) === undefined);
  }

  /** As {@link Leftovers.count}. */
  readonly countLeftovers: Leftovers["count"] = () => this.#leftovers.count();

  /**
   * Writes the DEL of the default network, as configured now, to disk, for sandboxes without a
   * record.
   * @param conf with which the container runtime calls Plexus; empty: the last call's
   * @throws CniError when the default network cannot be resolved, or the file cannot be written
   */
  async keepDefaultPlan(conf: JsonObject): Promise<void> {
    if (Object.keys(conf).length > 0) this.#conf = conf;
    const calls = await defaultNetworkDels(this.#deps, this.#conf);
    if (calls !== undefined) await this.#deps.records.keepDefaultPlan(calls);
  }

  /** As {@link HotPlug.reconcile}. */
  readonly hotPlug: HotPlug["reconcile"] = (...of) => this.#hotPlug.reconcile(...of);

  /** As {@link inspect} of the node's sandboxes. */
  inspect(pod: Pod, options: Pick<HotPlugOptions, "hosts" | "conf">): Promise<Inspection> {
    return inspect(this.#sandboxes, pod, options);
  }

  /**
   * Counts the attachments whose definition has changed since they were made.
   * @param conf the conf with which the container runtime calls Plexus
   * @throws CniError when a definition or the records cannot be read
   */
  async countOutdated(conf: JsonObject): Promise<number> {
    const ctx = contextWithoutCall(this.#deps, conf);
    let count = 0;
    for (const record of (await this.#deps.records.list()).records) {
      count += (await outdatedInterfaces(ctx, record)).length;
    }
    return count;
  }

  /** Everything known about a pod's networks. @throws CniError when the records cannot be read */
  explain(pod: PodName, options: ExplainOptions): Promise<Explanation> {
    const { history, findings } = this;
    return explainPod({ ...this.#deps, history, findings }, pod, options);
  }

  /** As {@link inventory}. */
  networks(view: NodeView, isLabelled = false): Promise<NetworkOnNode[]> {
    return inventory(this.#deps, view, isLabelled);
  }

  /** Why the last ADD of the pod failed; undefined if it did not. */
  failedAdd(pod: CalledPod): Failure | undefined {
    const last = this.history.of(pod).find(({ command }) => command === "ADD");
    return last?.message === undefined ? undefined : { ...last, message: last.message };
  }

  /** Notes an ADD that has failed in another process. */
  noteFailedAdd(pod: CalledPod, failure: Failure): void {
    this.history.add(pod, { command: "ADD", at: this.#deps.now(), ...failure });
  }
}
