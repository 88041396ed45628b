import { asCniError, CniError } from "#cni/error.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import { parsePluginRequest, sameNetnsError } from "#cni/plugin/parse-request.ts";
import type { GcRequest, PluginRequest, StatusRequest } from "#cni/plugin/request.ts";
import { printResult } from "#cni/result/format.ts";
import { rewordForDel } from "#cni/runtime/delegate-error.ts";
import { add } from "#engine/add/add.ts";
import type { Call, CallAnswer, CallHost, CallOutcome } from "#engine/call/call.ts";
import { type CallTools, callContext, callTools } from "#engine/call/call-context.ts";
import { answerCall, callFields, reportCall } from "#engine/call/call-report.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import { combineErrors } from "#engine/call/failures.ts";
import type { Trace } from "#engine/call/trace.ts";
import { check } from "#engine/check/check.ts";
import { defaultNetworkDels } from "#engine/del/default-plan.ts";
import { del } from "#engine/del/del.ts";
import { CallHistory } from "#engine/explain/call-history.ts";
import { type ExplainOptions, explainPod, type PodName } from "#engine/explain/explain-pod.ts";
import type { Explanation } from "#engine/explain/explanation.ts";
import { type RefusedRequests, refusedRequests } from "#engine/explain/refused-requests.ts";
import { collect } from "#engine/gc/gc.ts";
import { detachStale } from "#engine/gc/stale.ts";
import { type LeftoverOutcome, Leftovers, type RetryOptions } from "#engine/leftovers/leftovers.ts";
import {
  publishPendingStatus,
  recordsWithPendingStatus,
} from "#engine/network-status/pending-status.ts";
import { podIdentity } from "#engine/plan/pod/pod.ts";
import { status } from "#engine/status/status.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { SharedLock } from "#lib/concurrency/shared-lock.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { configForCall, type EngineConfig } from "./config.ts";
import { HostGoneError, type Logger, type NetnsState } from "./ports.ts";

/** What one call may spend on what others left behind. */
const leftoverBudgetMs = 5000;
/** What an agent may spend on one of them, which nothing waits for but the end of plexusd. */
const agentBudgetMs = 30_000;

/** Serves CNI calls: every decision of Plexus is made below this class. */
export class Engine {
  readonly #deps: EngineDeps;
  readonly #sandboxes = new KeyedMutex();
  /** Shared by the operations on sandboxes, exclusive to GC (CNI 1.1.0 §4 "GC"). */
  readonly #collection = new SharedLock();
  readonly #leftovers: Leftovers;
  readonly #history = new CallHistory();
  /** The conf of the last call that needed its default network. */
  #conf: JsonObject = {};

  constructor(deps: EngineDeps) {
    this.#deps = deps;
    this.#leftovers = new Leftovers(deps, this.#sandboxes);
  }

  /**
   * How many records name attachments that the container runtime will not have deleted.
   * @throws Error when the records cannot be listed
   */
  countLeftovers(): Promise<number> {
    return this.#leftovers.count();
  }

  /**
   * Serves one call; every failure becomes an answer.
   * @throws HostGoneError when the shim has gone, as nobody is left to answer
   */
  async handle(call: Call, host: CallHost): Promise<CallAnswer> {
    const { clock, metrics } = this.#deps;
    const tools = callTools(this.#deps, host);
    const { startedAt, trace, delegates } = tools;
    metrics.requestStarted(call.env.CNI_COMMAND ?? "");
    traceConnection(call, trace);
    const outcome = await this.#serve(call, tools);
    const finished = { call, outcome, delegates, trace, milliseconds: clock() - startedAt };
    // Nobody waits for the log: the answer goes first.
    setImmediate(() => reportCall(finished, this.#deps));
    this.#history.note(call, outcome, this.#deps.now());
    if (outcome.status === "failed" && outcome.error.cause instanceof HostGoneError) {
      throw outcome.error.cause;
    }
    return answerCall(finished);
  }

  /**
   * Keeps the DEL of the default network on disk for sandboxes without a record, as it is configured now.
   * @param conf the conf with which the container runtime calls Plexus; that of the last call when it is empty
   * @throws CniError when the default network cannot be resolved, or nothing be written
   */
  async keepDefaultPlan(conf: JsonObject): Promise<void> {
    const isKnown = Object.keys(conf).length > 0;
    const calls = await defaultNetworkDels(this.#deps, isKnown ? conf : this.#conf);
    if (calls !== undefined) await this.#deps.records.keepDefaultPlan(calls);
  }

  /** Everything that is known of a pod's networks, for people. @throws CniError when the records cannot be read */
  explain(pod: PodName, options: ExplainOptions): Promise<Explanation> {
    return explainPod({ ...this.#deps, history: this.#history }, pod, options);
  }

  /** The pods that cannot start as the configuration refuses what they ask for. */
  refusedRequests(): RefusedRequests[] {
    return refusedRequests(this.#history, this.#deps.now());
  }

  /**
   * Publishes the statuses that calls could not publish in their time. `isInUse` says of a container
   * whether another process serves a call for it: it is left for the next time. So is everything once the
   * API has not taken a status, or the signal fires.
   * @throws CniError when a record cannot be read or written
   */
  async publishPendingStatuses(
    isInUse: (containerId: string) => Promise<boolean>,
    signal?: AbortSignal,
  ): Promise<void> {
    for (const record of await recordsWithPendingStatus(this.#deps)) {
      if (signal?.aborted === true) return;
      using _collection = await this.#collection.shared();
      using _sandbox = await this.#sandboxes.acquire(record.containerId);
      if (await isInUse(record.containerId)) continue;
      if ((await publishPendingStatus(this.#deps, record, signal)) === "pending") return;
    }
  }

  /**
   * Repeats a teardown that is due, by the hands of a shim that serves no call (`plexus agent`); `call`
   * has its environment.
   * @returns whether there was one
   * @throws HostGoneError when the shim has gone
   */
  async retryLeftover(call: Call, host: CallHost): Promise<boolean> {
    using _collection = await this.#collection.shared();
    return this.#leftovers.retryOne(this.#agentContext(host), agentOptions(call));
  }

  /**
   * Repeats every teardown that is left over once, whether it is due or not, by the hands of such a shim.
   * @throws Error when the records cannot be listed
   * @throws HostGoneError when the shim has gone
   */
  async retryAllLeftovers(call: Call, host: CallHost): Promise<LeftoverOutcome[]> {
    using _collection = await this.#collection.shared();
    return this.#leftovers.retryAll(this.#agentContext(host), agentOptions(call));
  }

  #agentContext(host: CallHost): CallContext {
    return callContext(this.#deps, callTools(this.#deps, host), {
      config: configForCall(this.#deps.config(), {}),
      logger: this.#deps.logger,
      netnsState: "none",
    });
  }

  async #serve(call: Call, tools: CallTools): Promise<CallOutcome> {
    try {
      const request = await tools.trace.phase("parse", () =>
        parsePluginRequest(call.env, call.stdin),
      );
      const ctx = this.#context(call, request, tools);
      refuseOwnNetns(ctx, request);
      const result = await this.#execute(ctx, request);
      if (["ADD", "STATUS"].includes(request.command)) this.#conf = request.conf.raw;
      return { status: "succeeded", stdout: result === undefined ? "" : printResult(result) };
    } catch (cause) {
      const error = rewordedFor(call, asCniError(cause));
      return { status: "failed", stdout: formatErrorOutput(error, call.stdin), error };
    }
  }

  #context(call: Call, request: PluginRequest, tools: CallTools): CallContext {
    const logger = this.#deps.logger.child(callFields(call));
    return callContext(this.#deps, tools, {
      config: this.#config(request, logger),
      logger,
      netnsState: netnsState(call, request),
    });
  }

  /** DEL must succeed whatever the runtime's configuration has become: it needs the record only. */
  #config(request: PluginRequest, logger: Logger): EngineConfig {
    try {
      return configForCall(this.#deps.config(), request.conf.raw);
    } catch (error) {
      if (request.command !== "DEL") throw error;
      logger.warn({ err: error }, "DEL ignores an invalid network configuration");
      return configForCall(this.#deps.config(), {});
    }
  }

  /** Runs the command; calls for one sandbox run one after another. */
  async #execute(ctx: CallContext, request: PluginRequest): Promise<JsonObject | undefined> {
    if (request.command === "STATUS") return void (await this.#status(ctx, request));
    if (request.command === "GC") return void (await this.#gc(ctx, request));
    using _collection = await ctx.trace.phase("lock", () => this.#collection.shared());
    using _sandbox = await ctx.trace.phase("lock", () =>
      this.#sandboxes.acquire(request.containerId),
    );
    if (request.command === "ADD") return await add(ctx, request);
    if (request.command === "CHECK") return void (await check(ctx, request));
    await del(ctx, request);
    return void (await this.#retryLeftover(ctx, request));
  }

  /**
   * GC: the plugins collect alone. The DELs of stale sandboxes, which may hang, run beside other operations: the shim
   * shares its lock of the node with the first of them.
   */
  async #gc(ctx: CallContext, request: GcRequest): Promise<void> {
    const { stale, errors } = await this.#alone(ctx, () => collect(ctx, request));
    using _collection = await this.#collection.shared();
    const sandboxes = this.#sandboxes;
    const all = [...errors, ...(await detachStale(ctx, stale, { request, sandboxes }))];
    if (all.length > 0)
      throw combineErrors(all, `garbage collection ended with ${all.length} errors`);
    await this.#retryLeftover(ctx, request);
  }

  async #alone<T>(ctx: CallContext, step: () => Promise<T>): Promise<T> {
    using _collection = await ctx.trace.phase("lock", () => this.#collection.exclusive());
    return await step();
  }

  /** STATUS waits for nobody: while GC runs, it leaves leftovers alone. */
  async #status(ctx: CallContext, request: StatusRequest): Promise<void> {
    await status(ctx, request);
    using collection = this.#collection.tryShared();
    if (collection !== undefined) await this.#retryLeftover(ctx, request);
  }

  /** After the call's own work and before its answer, while its shim can still execute something. */
  async #retryLeftover(ctx: CallContext, request: PluginRequest): Promise<void> {
    if (!this.#deps.repeatsTeardowns) return;
    await ctx.trace.phase("leftovers", () =>
      this.#leftovers.retryOne(ctx, {
        path: request.path,
        budgetMs: leftoverBudgetMs,
        pod: "cniArgs" in request ? podIdentity(request.cniArgs) : undefined,
      }),
    );
  }
}

function agentOptions(call: Call): RetryOptions {
  const path = (call.env.CNI_PATH ?? "").split(":").filter((dir) => dir !== "");
  return { path, budgetMs: agentBudgetMs };
}

/** What the shim, which runs in the runtime's own network namespace, finds at CNI_NETNS. */
function netnsState(call: Call, request: PluginRequest): NetnsState {
  if (!("netns" in request) || request.netns === "") return "none";
  const state = call.env.PLEXUS_NETNS;
  if (state === "own") return request.netnsOverride ? "ok" : "own";
  return state === "ok" || state === "gone" ? state : "unknown";
}

/**
 * A sandbox in the runtime's own network namespace is a mistake (CNI's reference skeleton, code 8).
 * A DEL passes: nothing of it is left there that could be detached.
 * @throws CniError 8
 */
function refuseOwnNetns(ctx: CallContext, request: PluginRequest): void {
  if (request.command === "ADD" && ctx.netnsState === "own") throw sameNetnsError();
}

/** containerd forgets a pod whose DEL error contains certain words, so they are replaced in every DEL error. */
function rewordedFor(call: Call, error: CniError): CniError {
  if (call.env.CNI_COMMAND !== "DEL") return error;
  const message = rewordForDel(error.message);
  const details = error.details === undefined ? undefined : rewordForDel(error.details);
  if (message === error.message && details === error.details) return error;
  const cause = error.cause ?? error;
  return new CniError(error.code, message, omitUndefined({ details, cause }));
}

/** The time from the shim's start to now, measured against the shim's own clock reading. */
function traceConnection(call: Call, trace: Trace): void {
  const startedUs = Number(call.env.PLEXUS_STARTED_US);
  const nowMs = performance.timeOrigin + performance.now();
  if (startedUs > 0) trace.add("connect", Math.max(0, nowMs - startedUs / 1000));
}
