import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { execa } from "execa";
import type { DiskOperation } from "./operations.ts";
import type { ServerOrder } from "./server.ts";

const program = join(import.meta.dirname, "server.ts");

/** A mounted file system whose operations are taken down. */
export class DiskRecorder implements AsyncDisposable {
  readonly #mountPoint: string;
  readonly #server: ChildProcess;

  private constructor(mountPoint: string, server: ChildProcess) {
    this.#mountPoint = mountPoint;
    this.#server = server;
  }

  /** Mounts it, empty, at a directory; each fsync takes that long. @throws Error when there is no FUSE */
  static async mount(mountPoint: string, { syncMs }: { syncMs: number }): Promise<DiskRecorder> {
    const server = fork(program, [mountPoint, String(syncMs)]);
    const exited = once(server, "exit").then(() => {
      throw new Error("the recording file system cannot be mounted: is there /dev/fuse?");
    });
    await Promise.race([once(server, "message"), exited]);
    exited.catch(() => undefined);
    return new DiskRecorder(mountPoint, server);
  }

  /** Its process. */
  get pid(): number {
    return this.#server.pid ?? 0;
  }

  /** Notes that something happens now. Returns the number of operations up to it. */
  async mark(text: string): Promise<number> {
    return (await this.#ask({ mark: text })) as number;
  }

  async operations(): Promise<DiskOperation[]> {
    return (await this.#ask("operations")) as DiskOperation[];
  }

  async #ask(order: ServerOrder): Promise<unknown> {
    const answer = once(this.#server, "message");
    this.#server.send(order);
    const [message] = await answer;
    return message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await execa("umount", ["--lazy", this.#mountPoint]);
    this.#server.kill("SIGKILL");
  }
}
