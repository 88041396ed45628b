/** What plexus-standalone uses of Bun, which compiles it. */
interface BunApi {
  /** `fd`: a connected socket. */
  connect<T>(options: BunOptions<T> & { readonly data: T }): Promise<BunSocket<T>>;
  /** `fd`: a listening socket. */
  listen<T>(options: BunOptions<T>): void;
}

interface BunOptions<T> {
  readonly fd: number;
  readonly socket: BunHandlers<T>;
}

export interface BunSocket<T = unknown> {
  data: T;
  /** Returns how many bytes the kernel took; write the rest after `drain`. */
  write(bytes: Uint8Array): number;
  terminate(): void;
}

export interface BunHandlers<T> {
  /** A listening socket has accepted it. */
  open?(socket: BunSocket<T>): void;
  data(socket: BunSocket<T>, chunk: Uint8Array): void;
  drain(socket: BunSocket<T>): void;
  end(socket: BunSocket<T>): void;
  close(socket: BunSocket<T>): void;
  error(socket: BunSocket<T>, error: Error): void;
}

/** Bun's own API. The process must run under Bun. */
export function bun(): BunApi {
  return (globalThis as unknown as { readonly Bun: BunApi }).Bun;
}

/** Writes to a socket of Bun, which does not keep what the kernel does not take at once. */
export class BunWriter {
  readonly socket: BunSocket;
  #pending: Uint8Array[] = [];
  #onEmpty: (() => void) | undefined;
  #isClosed = false;

  constructor(socket: BunSocket) {
    this.socket = socket;
  }

  write(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    this.#pending.push(bytes);
    if (this.#pending.length === 1) this.drain();
  }

  /** The connection has ended: nothing will take what is pending. */
  close(): void {
    this.#isClosed = true;
    this.#pending = [];
    this.#onEmpty?.();
  }

  /** Calls back when the kernel has everything, or the connection has ended. */
  whenEmpty(callback: () => void): void {
    if (this.#pending.length === 0) callback();
    else this.#onEmpty = callback;
  }

  /** Writes what is pending; to be called when the socket takes more. */
  drain(): void {
    for (let next = this.#pending[0]; next !== undefined; next = this.#pending[0]) {
      const written = Math.max(0, this.socket.write(next));
      if (written < next.length) {
        this.#pending[0] = next.subarray(written);
        return;
      }
      this.#pending.shift();
    }
    this.#onEmpty?.();
  }
}
