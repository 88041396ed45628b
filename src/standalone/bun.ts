/** What plexus-standalone uses of Bun, which compiles it. */
interface BunApi {
  connect(options: { readonly fd: number; readonly socket: BunHandlers }): Promise<BunSocket>;
}

export interface BunSocket {
  /** Returns how many bytes the kernel took; write the rest after `drain`. */
  write(bytes: Uint8Array): number;
  terminate(): void;
}

interface BunHandlers {
  data(socket: BunSocket, chunk: Uint8Array): void;
  drain(socket: BunSocket): void;
  end(socket: BunSocket): void;
  close(socket: BunSocket): void;
  error(socket: BunSocket, error: Error): void;
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

  constructor(socket: BunSocket) {
    this.socket = socket;
  }

  write(bytes: Uint8Array): void {
    this.#pending.push(bytes);
    if (this.#pending.length === 1) this.drain();
  }

  /** Calls back when the kernel has everything. */
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
