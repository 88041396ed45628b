import { setTimeout as sleep } from "node:timers/promises";
import type { FakeApiServer, Outage } from "#kube/testing/fake-api-server.ts";
import type { RestartableDaemon } from "../support/daemon.ts";
import { isRunning, processes, signal } from "../support/processes.ts";
import { poll } from "../support/wait.ts";
import type { Contender, Sandbox } from "./contenders/contender.ts";
import type { Fault } from "./fault.ts";
import { breakDisk, repairDisk } from "./lab/disk.ts";
import { type GateAction, type Gates, gateOf, type Reached } from "./lab/gates.ts";
import type { Place } from "./lab/place.ts";
import type { RunningCall } from "./lab/runtime-call.ts";
import { ipamType } from "./lab/topology.ts";

/** What faults work on. */
export interface Parts {
  readonly place: Place;
  readonly gates: Gates;
  readonly api: FakeApiServer;
  readonly contender: Contender;
}

const reachedLimitMs = 10_000;
/** A runtime does not wait long for an executable that has stopped, compared with what else is waited for. */
const stoppedShimMs = 300;
/** A plugin whose caller was killed continues after this delay, during the next call. */
const stragglerMs = 100;

/** Lets one fault happen in one call. */
export class Injector {
  readonly fault: Fault;
  readonly #parts: Parts;
  readonly #sandbox: Sandbox;

  constructor(fault: Fault, parts: Parts, sandbox: Sandbox) {
    this.fault = fault;
    this.#parts = parts;
    this.#sandbox = sandbox;
  }

  /** Before the call is started. Returns whether the fault has happened already. */
  async arm(): Promise<boolean> {
    const { contender, gates } = this.#parts;
    const { moment, plugin } = this.fault.step;
    const { target, action } = this.fault;
    if (target === "plugin" && action !== "moved") {
      const type = moment === "ipam" ? ipamType : (plugin ?? "");
      gates.hide(type, action === "lost" ? "lost" : "hidden");
      return true;
    }
    if (moment === "start") {
      await this.#act(undefined, undefined);
      return true;
    }
    if (moment === "request") contender.daemon?.signal("SIGSTOP");
    else if (moment !== "end") gates.set(this.#gate, this.#selfAction ?? this.#gateAction);
    return false;
  }

  /** While the call runs. Returns whether the fault happened. */
  async during(call: RunningCall): Promise<boolean> {
    const { moment } = this.fault.step;
    if (moment === "end") return false;
    if (moment === "request") return await this.#atRequest(call);
    const reached = await poll(() => this.#parts.gates.reached(this.#gate), {
      timeoutMs: reachedLimitMs,
      ended: call.hasEnded,
    });
    if (reached === undefined || this.#selfAction !== undefined) return reached !== undefined;
    if (moment === "between") return await this.#between(call, reached);
    await this.#act(call, reached);
    const lostItsCaller = ["shim", "delegate", "agent"].includes(this.fault.target);
    if (lostItsCaller) await call.outcome;
    setTimeout(() => this.#parts.gates.release(this.#gate), lostItsCaller ? stragglerMs : 0);
    return true;
  }

  /** After the call has returned. Returns whether the fault has happened now. */
  async after(): Promise<boolean> {
    if (this.fault.step.moment !== "end") return false;
    await this.#act(undefined, undefined);
    return true;
  }

  get #gate(): string {
    return gateOf(this.#sandbox.containerId, this.fault);
  }

  get #gateAction(): GateAction {
    return this.fault.action === "kill-while-hung" ? "hang" : "hold";
  }

  /** What the plugin's own gate does, when the fault is the plugin's. */
  get #selfAction(): GateAction | undefined {
    const { target, action, step } = this.fault;
    const isIpam = step.moment.startsWith("ipam");
    const own = target === (isIpam ? "grandchild" : "delegate");
    return own && step.moment !== "between" ? (action as GateAction) : undefined;
  }

  async #atRequest(call: RunningCall): Promise<boolean> {
    const { contender } = this.#parts;
    const options = { timeoutMs: reachedLimitMs, ended: call.hasEnded };
    await poll(() => contender.hasRequested?.(this.#sandbox) ?? true, options);
    if (contender.engineOf !== undefined) await poll(() => contender.engineOf?.(call), options);
    const engine = await this.#engineOf(call);
    // A daemon has been stopped before the call.
    signal(engine, "SIGSTOP");
    await sleep(10);
    const inTime = !call.hasEnded();
    await this.#act(call, undefined);
    if (!this.#isEngines) signal(engine, "SIGCONT");
    return inTime;
  }

  /** The process whose decisions the fault is to come before; 0 if it is the executable itself. */
  async #engineOf(call: RunningCall): Promise<number> {
    const { contender } = this.#parts;
    return contender.daemon?.pid ?? (await contender.engineOf?.(call)) ?? 0;
  }

  /** Whether the fault is that of a daemon, or of the process of one call that does its work. */
  get #isEngines(): boolean {
    return this.fault.target === "plexusd" || this.fault.target === "standalone";
  }

  /** What the fault kills, if it is a daemon. */
  get #daemon(): RestartableDaemon | undefined {
    const { agent, daemon } = this.#parts.contender;
    if (this.fault.target === "agent") return agent;
    return this.#isEngines ? daemon : undefined;
  }

  /** The engine, or the executable that has none, does not notice that the plugin ended until the fault is there. */
  async #between(call: RunningCall, reached: Reached): Promise<boolean> {
    const { gates } = this.#parts;
    const waiting = (await this.#engineOf(call)) || call.pid;
    signal(waiting, "SIGSTOP");
    gates.release(this.#gate);
    await poll(() => !isRunning(reached.pid), { timeoutMs: 2000 });
    await this.#act(call, reached);
    const staysStopped = this.#isEngines || (this.fault.action === "stop" && waiting === call.pid);
    if (!staysStopped) signal(waiting, "SIGCONT");
    return true;
  }

  async #act(call: RunningCall | undefined, reached: Reached | undefined): Promise<void> {
    const { place, api, contender, gates } = this.#parts;
    const { target, action } = this.fault;
    const name = action === "stop" ? "SIGSTOP" : "SIGKILL";
    if (call !== undefined && contender.engineOf !== undefined && this.#isEngines)
      signal(await this.#engineOf(call), name);
    else if (target === "plexusd" && action === "stop") contender.daemon?.signal(name);
    else if (this.#daemon !== undefined) await this.#daemon.kill();
    else if (target === "disk") await breakDisk(place, action);
    else if (target === "api") await api.fail(action as Outage);
    else if (target === "plugin") gates.move();
    else if (target === "delegate") signal(reached?.parent ?? 0, name);
    else if (target === "shim" && call !== undefined) {
      signal(call.pid, name);
      if (action === "stop") setTimeout(() => killIfRuns(call), stoppedShimMs);
    }
  }
}

/** Kills the executable of a call, as a runtime does that does not wait any longer. */
export function killIfRuns(call: RunningCall): void {
  if (!call.hasEnded()) signal(call.pid, "SIGKILL");
}

/** Puts everything right again: mounts, plugins, the API, stopped processes, the daemon. */
export async function repair({ place, gates, api, contender }: Parts): Promise<void> {
  await repairDisk(place);
  await gates.clear();
  await gates.restore();
  await api.recover();
  for (const { pid, state } of processes()) if (state === "T") signal(pid, "SIGCONT");
  await contender.daemon?.start();
}
