import type { Duplex } from "node:stream";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { type DelegateHost, HostGoneError, NetnsError, type PluginLookup } from "#engine/ports.ts";
import { type Frame, FrameReader, ProtocolError } from "#protocol/frame.ts";
import {
  type DoneMessage,
  decodeExecResult,
  decodeFindResult,
  decodeNetlinkResult,
  decodeRequest,
  encodeDone,
  encodeExec,
  encodeFind,
  encodeNetlink,
  type RequestMessage,
} from "#protocol/messages.ts";

interface Waiter {
  resolve(frame: Frame): void;
  reject(error: Error): void;
}

/**
 * The connection of one call to its shim: reads the request, sends orders one at a time, and ends
 * the call. When the shim disconnects, everything pending rejects and `gone` is aborted.
 */
export class ShimSession implements DelegateHost {
  readonly #stream: Duplex;
  readonly #reader = new FrameReader();
  readonly #gone = new AbortController();
  #waiter: Waiter | undefined;
  /** The request, if it arrives before {@link request} is called. */
  #early: Frame | undefined;
  #isStarted = false;
  #failure: Error | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on("data", (chunk: Buffer) => this.#onData(chunk));
    stream.on("error", (error) =>
      this.#fail(new HostGoneError("the shim's connection broke", { cause: error })),
    );
    stream.on("close", () => this.#fail(new HostGoneError("the shim has gone")));
    stream.on("end", () => this.#fail(new HostGoneError("the shim has gone")));
  }

  /** Aborted when the shim has gone. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /**
   * The shim's request.
   * @throws ProtocolError when it breaks the protocol; HostGoneError when none comes within `timeoutMs`
   */
  async request(timeoutMs: number): Promise<RequestMessage> {
    const timer = setTimeout(() => {
      this.#fail(new HostGoneError(`no request within ${timeoutMs} ms`));
      this.#stream.destroy();
    }, timeoutMs);
    try {
      return decodeRequest(await this.#nextFrame());
    } finally {
      clearTimeout(timer);
    }
  }

  /** See {@link DelegateHost.exec}. */
  async exec(call: DelegateCall): Promise<DelegateOutcome> {
    return decodeExecResult(await this.#order(encodeExec({ group: 0, ...call })));
  }

  /** See {@link DelegateHost.find}. */
  async find(
    searchPath: readonly string[],
    types: readonly string[],
  ): Promise<readonly PluginLookup[]> {
    return decodeFindResult(await this.#order(encodeFind(searchPath, types)), types.length);
  }

  /** See {@link DelegateHost.netlink}. */
  async netlink(netnsPath: string, messages: Uint8Array): Promise<Uint8Array> {
    const result = decodeNetlinkResult(await this.#order(encodeNetlink(netnsPath, messages)));
    if (result.errno !== 0) throw new NetnsError(result.message, result.errno);
    return result.bytes;
  }

  /** Ends the call: the shim prints the message and exits. Resolves when the kernel has accepted it. */
  async done(message: DoneMessage): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    await new Promise<void>((resolve) => this.#stream.end(encodeDone(message), () => resolve()));
  }

  /** Orders run one after another, as the shim serves one at a time. */
  #order(frame: Buffer): Promise<Frame> {
    const answer = this.#turn.then(() => {
      if (this.#failure !== undefined) throw this.#failure;
      this.#stream.write(frame);
      return this.#nextFrame();
    });
    this.#turn = answer.catch(() => undefined);
    return answer;
  }

  #nextFrame(): Promise<Frame> {
    const early = this.#early;
    this.#early = undefined;
    if (early !== undefined) return Promise.resolve(early);
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  #onData(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.push(chunk)) this.#deliver(frame);
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      this.#stream.destroy();
    }
  }

  /**
   * The shim sends its request unasked, and then one answer for each order. Any other frame is an
   * error, as it would be taken for the answer to the next order.
   */
  #deliver(frame: Frame): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    if (waiter !== undefined) waiter.resolve(frame);
    else if (!this.#isStarted) this.#early = frame;
    else throw new ProtocolError(`unexpected frame of type ${frame.type}`);
    this.#isStarted = true;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#waiter?.reject(this.#failure);
    this.#waiter = undefined;
    this.#gone.abort(this.#failure);
  }
}
