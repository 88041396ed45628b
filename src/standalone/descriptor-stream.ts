import { close, read, write } from "node:fs";
import { Duplex } from "node:stream";

const chunkSize = 64 * 1024;

/**
 * A connected socket that was inherited as a descriptor. net.Socket does not support descriptors
 * under Bun, which compiles the standalone executable.
 */
export class DescriptorStream extends Duplex {
  readonly #fd: number;

  constructor(fd: number) {
    super();
    this.#fd = fd;
  }

  override _read(): void {
    const buffer = Buffer.allocUnsafe(chunkSize);
    read(this.#fd, buffer, 0, chunkSize, null, (error, length) => {
      if (error !== null) this.destroy(error);
      else this.push(length === 0 ? null : buffer.subarray(0, length));
    });
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    write(this.#fd, chunk, (error, written) => {
      if (error !== null || written === chunk.length) done(error);
      else this._write(chunk.subarray(written), "", done);
    });
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    close(this.#fd, (failure) => done(error ?? failure));
  }
}
