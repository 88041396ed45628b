import { constants } from "node:os";
import { CniError } from "#cni/error.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { declinedExitCode } from "#engine/ports/call.ts";
import {
  type DelegateHost,
  HostGoneError,
  NetnsError,
  type PluginLookup,
} from "#engine/ports/host.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { encodeFrame, type Frame, FrameReader, FrameType, ProtocolError } from "#protocol/frame.ts";
import {
  type DoneMessage,
  decodeExecResult,
  decodeFindResult,
  decodeNetlinkResult,
  decodeOccupantsResult,
  decodeRequest,
  decodeSandboxResult,
  encodeDone,
  encodeExec,
  encodeFind,
  encodeNetlink,
  encodeOccupants,
  encodeRequire,
  encodeSandbox,
  ProtocolVersionError,
  type RequestMessage,
  typesByFrame,
} from "#protocol/messages.ts";

/** A shim sends its request at once; one that has not by then never will. */
const requestMs = 10_000;
/** The shim ends a process that is silent for five times as long. */
const aliveMs = 1000;

/** A connected socket, such as a Duplex of node:stream. */
export interface ShimStream {
  on(event: "data", listener: (chunk: Buffer) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "close" | "end", listener: () => void): unknown;
  write(bytes: Uint8Array): unknown;
  /** Calls back when the kernel accepted the bytes. */
  end(bytes: Uint8Array, callback: () => void): unknown;
  destroy(): unknown;
}

/**
 * The connection of one call to its shim. The shim carries out orders one after another, so the
 * next order need not wait. When it disconnects, everything pending rejects and `gone` is aborted.
 */
export class ShimSession implements DelegateHost {
  readonly #stream: ShimStream;
  readonly #reader = new FrameReader();
  readonly #gone = new AbortController();
  /** For the request, and then for each order that is not answered yet. */
  readonly #waiters: PromiseWithResolvers<Frame>[] = [];
  /** The answer is on its way: the shim may go. */
  #isDone = false;
  #failure: Error | undefined;
  /** The first frame, which the shim sends unasked. */
  readonly #request: Promise<Frame> = this.#nextFrame();

  #alive: NodeJS.Timeout | undefined;

  constructor(stream: ShimStream) {
    this.#stream = stream;
    // The caller of request() gets the failure.
    this.#request.catch(() => undefined);
    stream.on("data", (chunk: Buffer) => this.#onData(chunk));
    stream.on("error", (error) => this.#lose("the shim's connection broke", { cause: error }));
    stream.on("close", () => this.#lose("the shim has gone"));
    stream.on("end", () => this.#lose("the shim has gone"));
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /**
   * The shim's request. A shim of another release is answered before this throws.
   * @throws ProtocolError when it breaks the protocol; HostGoneError when none comes in time
   */
  async request(): Promise<RequestMessage> {
    const timer = setTimeout(() => {
      this.#fail(new HostGoneError(`no request within ${requestMs} ms`));
      this.#stream.destroy();
    }, requestMs);
    try {
      return decodeRequest(await this.#request);
    } catch (error) {
      if (error instanceof ProtocolVersionError) {
        await this.done(otherReleaseAnswer(await this.#request));
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Until the answer, tells the shim each second that this process does not hang. */
  sendAlive(): void {
    const send = (): unknown => this.#stream.write(encodeFrame(FrameType.Alive, []));
    this.#alive = setInterval(send, aliveMs);
    send();
  }

  async exec(call: DelegateCall): Promise<DelegateOutcome> {
    const order = encodeExec({ group: 0, ...call });
    const required = encodeRequire(call.searchPath, call.requires ?? []);
    const bytes = required.length === 0 ? order : Buffer.concat([...required, order]);
    return decodeExecResult(await this.#order(bytes));
  }

  async find(
    searchPath: readonly string[],
    types: readonly string[],
  ): Promise<readonly PluginLookup[]> {
    const answers = typesByFrame(types).map(async (some) =>
      decodeFindResult(await this.#order(encodeFind(searchPath, some)), some.length),
    );
    return (await Promise.all(answers)).flat();
  }

  async netlink(netnsPath: string, messages: Uint8Array): Promise<Uint8Array> {
    const result = decodeNetlinkResult(await this.#order(encodeNetlink(netnsPath, messages)));
    if (result.stage === "done") return result.bytes;
    if (result.stage === "open" && isGone(result.errno)) {
      throw new NetnsError(result.message, result.errno);
    }
    throw new CniError("IoFailure", result.message);
  }

  async occupants(netnsPath: string): Promise<readonly RecordKey[]> {
    return decodeOccupantsResult(await this.#order(encodeOccupants(netnsPath)));
  }

  /** Has `plexus agent --attach` lock a sandbox, for which the session then is. */
  async sandbox(
    sandbox: Parameters<typeof encodeSandbox>[0],
  ): Promise<ReturnType<typeof decodeSandboxResult>> {
    return decodeSandboxResult(await this.#order(encodeSandbox(sandbox)));
  }

  /** Ends the call: the shim prints the message and exits. Resolves when the kernel accepted it. */
  async done(message: DoneMessage): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#isDone = true;
    clearInterval(this.#alive);
    await new Promise<void>((resolve) => this.#stream.end(encodeDone(message), () => resolve()));
  }

  #order(bytes: Buffer): Promise<Frame> {
    if (this.#failure === undefined) this.#stream.write(bytes);
    return this.#nextFrame();
  }

  #nextFrame(): Promise<Frame> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const waiter = Promise.withResolvers<Frame>();
    this.#waiters.push(waiter);
    return waiter.promise;
  }

  /**
   * The shim sends its request unasked, and then one answer for each order. Any other frame is an
   * error, as it would be taken for the answer to the next order.
   */
  #onData(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.push(chunk)) {
        const waiter = this.#waiters.shift();
        if (waiter === undefined) throw new ProtocolError(`unexpected frame of type ${frame.type}`);
        waiter.resolve(frame);
      }
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      this.#stream.destroy();
    }
  }

  /** The connection has ended, which is an error unless the call has. */
  #lose(message: string, options?: ErrorOptions): void {
    if (!this.#isDone) this.#fail(new HostGoneError(message, options));
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    clearInterval(this.#alive);
    for (const waiter of this.#waiters.splice(0)) waiter.reject(this.#failure);
    this.#gone.abort(this.#failure);
  }
}

/** Whether there is no network namespace at a path: nothing is there, or something else. */
function isGone(errno: number): boolean {
  const { ENOENT, ENOTDIR, ELOOP, ESRCH, EINVAL } = constants.errno;
  return [ENOENT, ENOTDIR, ELOOP, ESRCH, EINVAL].includes(errno);
}

/**
 * The answer to a `REQUEST` of another protocol version: the shim asks another engine or replays the
 * plan, or the runtime retries with the executable that the upgrade installs. `DONE` and the first two fields of `REQUEST` are the same in every
 * version.
 */
function otherReleaseAnswer(request: Frame): DoneMessage {
  const error = new CniError(
    "DaemonUnavailable",
    "the node's plexus executable and plexusd are of different releases; try again after the upgrade",
  );
  const stdin = request.fields[1]?.toString() ?? "";
  return { exitCode: declinedExitCode, stdout: formatErrorOutput(error, stdin), stderr: "" };
}
