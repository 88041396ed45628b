import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { CallAnswer } from "#engine/ports/call.ts";
import { HostGoneError, type PluginLookup } from "#engine/ports/host.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { Process } from "../../world/schedule.ts";
import {
  type EngineProcess,
  type EngineSession,
  type SandboxToEnter,
  world,
} from "../../world/world.ts";

/** What the shim reads from the connection, or how its wait ended. */
export type EngineMessage =
  | { readonly kind: "exec"; readonly call: DelegateCall }
  | { readonly kind: "find"; readonly types: readonly string[] }
  | { readonly kind: "sandbox"; readonly sandbox: SandboxToEnter }
  | { readonly kind: "occupants"; readonly netns: string }
  | { readonly kind: "netlink"; readonly netns: string; readonly messages: Uint8Array }
  | { readonly kind: "done"; readonly answer: CallAnswer }
  | { readonly kind: "closed" }
  | { readonly kind: "silent" };

interface Waiter {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** How long a message is on its way, in microseconds. */
const [latencyMinUs, latencyMaxUs] = [20, 200];

/** One direction: what is sent first arrives first. */
class Direction {
  readonly #to: Process;
  #lastUs = 0;

  constructor(to: Process) {
    this.#to = to;
  }

  send(deliver: () => void): void {
    const { schedule, random } = world();
    const { nowUs } = schedule;
    const atUs = nowUs + random.integer(latencyMinUs, latencyMaxUs);
    this.#lastUs = Math.max(this.#lastUs + 1, atUs);
    schedule.at(this.#lastUs - nowUs, deliver, this.#to);
  }
}

/** The socket between a shim and an engine, with the engine's end as src/host/shim-session.ts has it. */
export class Connection implements EngineSession {
  readonly request: EngineSession["request"];
  readonly #toShim: Direction;
  readonly #toEngine: Direction;
  /** The engine's orders that are not answered yet. */
  readonly #pending: Waiter[] = [];
  #failure: HostGoneError | undefined;
  #isDone = false;
  #gone: AbortController | undefined;
  /** What the shim has not read yet. */
  readonly #arrived: EngineMessage[] = [];
  #read: ((message: EngineMessage) => void) | undefined;
  #silentAtUs = 0;
  #silence: ReturnType<ReturnType<typeof world>["schedule"]["at"]> | undefined;
  #isClosed = false;

  /** Connects the shim, which sends its request at once. */
  constructor(shim: Process, request: EngineSession["request"], engine: EngineProcess) {
    this.request = request;
    this.#toShim = new Direction(shim);
    this.#toEngine = new Direction(engine.process);
    this.#toEngine.send(() => engine.accept(this));
    shim.onEnd(() => this.close());
    engine.process.onEnd(() => this.hangUp());
  }

  get gone(): AbortSignal {
    if (this.#gone === undefined) {
      this.#gone = new AbortController();
      if (this.#failure !== undefined) this.#gone.abort(this.#failure);
    }
    return this.#gone.signal;
  }

  exec(call: DelegateCall): Promise<DelegateOutcome> {
    return this.#order({ kind: "exec", call });
  }

  find(_: readonly string[], types: readonly string[]): Promise<readonly PluginLookup[]> {
    return this.#order({ kind: "find", types });
  }

  netlink(netns: string, messages: Uint8Array): Promise<Uint8Array> {
    return this.#order({ kind: "netlink", netns, messages });
  }

  occupants(netns: string): Promise<readonly RecordKey[]> {
    return this.#order({ kind: "occupants", netns });
  }

  sandbox(sandbox: SandboxToEnter): ReturnType<EngineSession["sandbox"]> {
    return this.#order({ kind: "sandbox", sandbox });
  }

  async done(answer: CallAnswer): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#isDone = true;
    this.#send({ kind: "done", answer });
    await world().schedule.sleep(latencyMinUs);
  }

  /** The engine's end closes: it has ended, or is through with the call. */
  hangUp(): void {
    this.#send({ kind: "closed" });
  }

  /** The shim waits for a message. It gives up after the last of them by `silenceUs`; 0: never. */
  next(silenceUs: number): Promise<EngineMessage> {
    const first = this.#arrived.shift();
    if (first !== undefined) return Promise.resolve(first);
    const { schedule } = world();
    this.#silentAtUs = schedule.nowUs + silenceUs;
    if (silenceUs > 0) this.#silence ??= schedule.at(silenceUs, () => this.#onSilence());
    return new Promise((resolve) => {
      this.#read = resolve;
    });
  }

  /** The shim answers its oldest order. */
  answer(settle: (waiter: Waiter) => void): void {
    this.#toEngine.send(() => {
      const waiter = this.#pending.shift();
      if (waiter !== undefined) settle(waiter);
    });
  }

  /** The shim's end closes: it has ended, or has given up. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#silence !== undefined) world().schedule.cancel(this.#silence);
    this.#toEngine.send(() => this.#lose());
  }

  #order<T>(message: EngineMessage): Promise<T> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#send(message);
    return new Promise<unknown>((resolve, reject) => {
      this.#pending.push({ resolve, reject });
    }) as Promise<T>;
  }

  #send(message: EngineMessage): void {
    this.#toShim.send(() => this.#deliver(message));
  }

  #deliver(message: EngineMessage): void {
    const read = this.#read;
    this.#read = undefined;
    if (read === undefined) this.#arrived.push(message);
    else read(message);
  }

  /** The time of the timer has come, which later messages have not moved. */
  #onSilence(): void {
    const { schedule } = world();
    this.#silence = undefined;
    if (this.#read === undefined) return;
    const leftUs = this.#silentAtUs - schedule.nowUs;
    if (leftUs <= 0) this.#deliver({ kind: "silent" });
    else this.#silence = schedule.at(leftUs, () => this.#onSilence());
  }

  #lose(): void {
    if (this.#isDone || this.#failure !== undefined) return;
    this.#failure = new HostGoneError("the shim has gone");
    for (const waiter of this.#pending.splice(0)) waiter.reject(this.#failure);
    this.#gone?.abort(this.#failure);
  }
}
