import type { ShimStream } from "#host/shim-session.ts";
import { type BunSocket, BunWriter, bun } from "./bun.ts";

type Event = "data" | "error" | "close" | "end";

/**
 * A connected socket that was inherited as a descriptor. net.Socket does not support descriptors
 * under Bun, and node:stream takes milliseconds to load.
 */
export class DescriptorStream implements ShimStream {
  readonly #listeners: Record<Event, ((value: never) => void)[]> = {
    data: [],
    error: [],
    close: [],
    end: [],
  };
  readonly #writer: Promise<BunWriter>;

  constructor(fd: number) {
    const handlers = {
      data: (_: BunSocket, chunk: Uint8Array) => this.#emit("data", chunk),
      drain: () => void this.#writer.then((writer) => writer.drain()),
      end: () => this.#emit("end"),
      close: () => this.#emit("close"),
      error: (_: BunSocket, error: Error) => this.#emit("error", error),
    };
    this.#writer = bun()
      .connect({ fd, socket: handlers })
      .then((socket) => new BunWriter(socket));
    this.#writer.catch((error: unknown) => this.#emit("error", error));
  }

  on(event: Event, listener: (value: never) => void): void {
    this.#listeners[event].push(listener);
  }

  write(bytes: Uint8Array): void {
    void this.#writer.then((writer) => writer.write(bytes));
  }

  end(bytes: Uint8Array, callback: () => void): void {
    void this.#writer.then((writer) => {
      writer.write(bytes);
      writer.whenEmpty(callback);
    });
  }

  destroy(): void {
    void this.#writer.then(({ socket }) => socket.terminate());
  }

  #emit(event: Event, value?: unknown): void {
    for (const listener of this.#listeners[event]) listener(value as never);
  }
}
