import { EventEmitter } from "node:events";
import type { ShimStream } from "#host/shim-session.ts";
import { type BunSocket, BunWriter, bun } from "./bun.ts";

/**
 * A connected socket that was inherited as a descriptor. net.Socket does not support descriptors
 * under Bun, and node:stream takes milliseconds to load.
 */
export class DescriptorStream extends EventEmitter implements ShimStream {
  readonly #writer: Promise<BunWriter>;

  constructor(fd: number) {
    super();
    const socket = {
      data: (_: BunSocket, chunk: Uint8Array) => void this.emit("data", chunk),
      drain: () => void this.#writer.then((writer) => writer.drain()),
      end: () => void this.emit("end"),
      close: () => void this.emit("close"),
      error: (_: BunSocket, error: Error) => void this.emit("error", error),
    };
    const connected = bun().connect({ fd, socket });
    this.#writer = connected.then((opened) => new BunWriter(opened));
    this.#writer.catch((error: unknown) => this.emit("error", error));
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
}
