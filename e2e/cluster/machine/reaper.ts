import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { join } from "node:path";

/**
 * A process that outlives this one, if need be, to remove a cluster's leftovers: see reaper.sh. It is in another
 * session, so that a signal to this process group does not reach it.
 */
export class Reaper {
  readonly #process;
  readonly #ended: Promise<unknown[]>;

  /** @param leftovers `cgroup` is what the names of the control groups begin with */
  constructor({ directory, cgroup }: { readonly directory: string; readonly cgroup: string }) {
    const script = join(import.meta.dirname, "reaper.sh");
    this.#process = spawn("sh", [script, directory, cgroup], {
      stdio: ["pipe", "ignore", "inherit"],
      detached: true,
    });
    this.#ended = once(this.#process, "exit");
    this.#process.unref();
    (this.#process.stdin as Socket).unref();
  }

  /** Removes the leftovers. Throws if some cannot be removed, which it prints. */
  async reap(): Promise<void> {
    this.#process.ref();
    this.#process.stdin.end();
    const [exitCode] = await this.#ended;
    if (exitCode !== 0) {
      throw new Error("cannot remove all that the cluster has left");
    }
  }
}
