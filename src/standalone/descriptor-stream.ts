import { EventEmitter } from "node:events";
import type { ShimStream } from "#host/shim-session.ts";
import { type BunHandlers, type BunSocket, BunWriter, bun } from "./bun.ts";

const handlers: BunHandlers<DescriptorStream> = {
  data: ({ data: stream }, chunk) => void stream.emit("data", chunk),
  drain: ({ data: stream }) => stream.drain(),
  end: ({ data: stream }) => void stream.emit("end"),
  close: ({ data: stream }) => stream.close(),
  error: ({ data: stream }, error) => void stream.emit("error", error),
};

/**
 * A connection to a shim by a descriptor that was inherited. net.Socket does not support those
 * under Bun, and node:stream takes milliseconds to load.
 */
export class DescriptorStream extends EventEmitter implements ShimStream {
  readonly #writer: Promise<BunWriter>;

  private constructor(socket: (stream: DescriptorStream) => Promise<BunSocket>) {
    super();
    this.#writer = socket(this).then((opened) => new BunWriter(opened));
    this.#writer.catch((error: unknown) => this.emit("error", error));
  }

  /** @param fd a connected socket */
  static connect(fd: number): DescriptorStream {
    return new DescriptorStream((data) => bun().connect({ fd, socket: handlers, data }));
  }

  /** @param fd a listening socket @throws Error when it is none */
  static listen(fd: number, accept: (stream: DescriptorStream) => void): void {
    const open = (socket: BunSocket<DescriptorStream>): void => {
      socket.data = new DescriptorStream(async () => socket);
      accept(socket.data);
    };
    bun().listen({ fd, socket: { ...handlers, open } });
  }

  close(): void {
    void this.#writer.then((writer) => writer.close());
    this.emit("close");
  }

  drain(): void {
    void this.#writer.then((writer) => writer.drain());
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
