import { asCniError, CniError } from "#cni/error.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import { parsePluginRequest, sameNetnsError } from "#cni/plugin/parse-request.ts";
import type { PluginRequest } from "#cni/plugin/request.ts";
import { printResult } from "#cni/result/format.ts";
import { rewordForDel } from "#cni/runtime/delegate-error.ts";
import { add } from "#engine/attach/add.ts";
import { gc } from "#engine/collect/gc.ts";
import { del } from "#engine/detach/del.ts";
import { check } from "#engine/verify/check.ts";
import { status } from "#engine/verify/status.ts";
import type { JsonObject } from "#lib/json.ts";
import { KeyedMutex } from "#lib/keyed-mutex.ts";
import { SharedLock } from "#lib/shared-lock.ts";
import { configForCall, type EngineConfig } from "./config.ts";
import { delegateRunner } from "./delegate-runner.ts";
import type { CallContext, EngineDeps } from "./deps.ts";
import { type DelegateHost, HostGoneError, type Logger } from "./ports.ts";
import { Trace } from "./trace.ts";

/** A call as the shim passes it on. */
export interface Call {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** What the shim prints and exits with. */
export interface CallAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The host of one call: runs its orders, and says when it is gone. */
export interface CallHost extends DelegateHost {
  readonly gone: AbortSignal;
}

/** What comes of a call while it is served. */
interface Progress {
  readonly host: CallHost;
  readonly trace: Trace;
  /** What delegates said, for the runtime's log. */
  readonly stderr: string[];
  /** The networks that it concerned. */
  readonly networks: Set<string>;
}

interface Served {
  readonly stdout: string;
  readonly error?: CniError;
}

/** Serves CNI calls: every decision of Plexus is made below this class. */
export class Engine {
  readonly #deps: EngineDeps;
  readonly #sandboxes = new KeyedMutex();
  /** Held together by operations on sandboxes, alone by GC (CNI 1.1.0 §4 "GC"). */
  readonly #collection = new SharedLock();

  constructor(deps: EngineDeps) {
    this.#deps = deps;
  }

  /**
   * Serves one call to its end; every failure becomes an answer.
   * @throws HostGoneError when the shim went: nobody is left to answer
   */
  async handle(call: Call, host: CallHost): Promise<CallAnswer> {
    const { clock, metrics } = this.#deps;
    const progress: Progress = {
      host,
      trace: new Trace(clock),
      stderr: [],
      networks: new Set<string>(),
    };
    const started = clock();
    const command = call.env.CNI_COMMAND ?? "";
    metrics.requestStarted(command);
    traceConnection(call, progress.trace);
    const { stdout, error } = await this.#attempt(call, progress);
    const milliseconds = clock() - started;
    metrics.requestEnded(command, {
      milliseconds,
      ...(error === undefined ? {} : { code: error.code }),
    });
    this.#log(call, { error, milliseconds, networks: [...progress.networks] });
    if (error?.cause instanceof HostGoneError) throw error.cause;
    const trace = call.env.PLEXUS_TRACE === "1" ? progress.trace.format() : "";
    const stderr = progress.stderr.join("") + trace;
    return { exitCode: error === undefined ? 0 : 1, stdout, stderr };
  }

  async #attempt(call: Call, by: Progress): Promise<Served> {
    try {
      const request = await by.trace.phase("parse", () => parsePluginRequest(call.env, call.stdin));
      refuseOwnNetns(call, request);
      const ctx = this.#context(request, { ...by, call });
      const result = await this.#serve(ctx, request);
      return { stdout: result === undefined ? "" : printResult(result) };
    } catch (cause) {
      const error = wordedFor(call, asCniError(cause));
      return { stdout: formatErrorOutput(error, call.stdin), error };
    }
  }

  #context(request: PluginRequest, by: Progress & { call: Call }): CallContext {
    const { host, trace } = by;
    const logger = this.#deps.logger.child(callFields(by.call));
    return {
      deps: this.#deps,
      config: this.#config(request, logger),
      host,
      run: delegateRunner({ ...by, deps: this.#deps }),
      logger,
      trace,
      signal: host.gone,
    };
  }

  /** What is recorded is detached whatever became of the runtime's conf since: DEL goes on without it. */
  #config(request: PluginRequest, logger: Logger): EngineConfig {
    try {
      return configForCall(this.#deps.config(), request.conf.raw);
    } catch (error) {
      if (request.command !== "DEL") throw error;
      logger.warn({ err: error }, "DEL goes by the daemon's configuration alone");
      return configForCall(this.#deps.config(), {});
    }
  }

  async #serve(ctx: CallContext, request: PluginRequest): Promise<JsonObject | undefined> {
    if (request.command === "STATUS") return void (await status(ctx, request));
    if (request.command === "GC") {
      using _alone = await ctx.trace.phase("lock", () => this.#collection.exclusive());
      return void (await gc(ctx, request));
    }
    using _together = await ctx.trace.phase("lock", () => this.#collection.shared());
    using _sandbox = await ctx.trace.phase("lock", () =>
      this.#sandboxes.acquire(request.containerId),
    );
    if (request.command === "ADD") return await add(ctx, request);
    if (request.command === "DEL") return void (await del(ctx, request));
    return void (await check(ctx, request));
  }

  /** One line a command; what failed says why, with the whole chain of causes. */
  #log(
    call: Call,
    outcome: { error: CniError | undefined; milliseconds: number; networks: readonly string[] },
  ): void {
    const { error, milliseconds, networks } = outcome;
    const durationMs = Math.round(milliseconds * 10) / 10;
    const command = call.env.CNI_COMMAND ?? "";
    const fields = { ...callFields(call), command, networks, durationMs };
    if (error === undefined) this.#deps.logger.info(fields, `${command} done`);
    else
      this.#deps.logger.error(
        { ...fields, code: error.code, err: error },
        `${command} failed: ${error.message}`,
      );
  }
}

/**
 * A sandbox in the runtime's own network namespace is a mistake (CNI's reference skeleton, code 8).
 * The shim, which is in that namespace, tells; unless CNI_NETNS_OVERRIDE says that it is meant.
 * @throws CniError 8
 */
function refuseOwnNetns(call: Call, request: PluginRequest): void {
  if (request.command !== "ADD" && request.command !== "DEL") return;
  if (call.env.PLEXUS_NETNS_IS_OWN === "1" && !request.netnsOverride) throw sameNetnsError();
}

/** containerd forgets a pod whose DEL error has certain words; whoever wrote them, they go no further. */
function wordedFor(call: Call, error: CniError): CniError {
  if (call.env.CNI_COMMAND !== "DEL") return error;
  const message = rewordForDel(error.message);
  const details = error.details === undefined ? {} : { details: rewordForDel(error.details) };
  const same = message === error.message && details.details === error.details;
  return same
    ? error
    : new CniError(error.code, message, { ...details, cause: error.cause ?? error });
}

/** From the shim's start to here, by its own clock reading. */
function traceConnection(call: Call, trace: Trace): void {
  const startedUs = Number(call.env.PLEXUS_STARTED_US);
  const nowMs = performance.timeOrigin + performance.now();
  if (startedUs > 0) trace.add("connect", Math.max(0, nowMs - startedUs / 1000));
}

/** What every log line of a call carries: whose it is, never its configuration or environment. */
function callFields(call: Call): Record<string, string> {
  const fields: Record<string, string> = {};
  const args = new Map((call.env.CNI_ARGS ?? "").split(";").map((pair) => splitOnce(pair)));
  const wanted = {
    containerId: call.env.CNI_CONTAINERID,
    ifName: call.env.CNI_IFNAME,
    podNamespace: args.get("K8S_POD_NAMESPACE"),
    podName: args.get("K8S_POD_NAME"),
  };
  for (const [key, value] of Object.entries(wanted)) {
    if (value !== undefined && value !== "") fields[key] = value;
  }
  return fields;
}

function splitOnce(pair: string): [string, string] {
  const equals = pair.indexOf("=");
  return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
}
