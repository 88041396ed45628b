import { readdir, readFile, rmdir, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ifPresent } from "#lib/files/is-absent.ts";

/** How often a process without calls looks whether any can come. */
const lookMs = 1000;
/** For connections that were made while the socket's name was removed. */
const lastConnectionsMs = 20;

/**
 * The calls of a process, which come from its own shim and then by the socket that this shim has
 * made. It is named `NAMESPACE-PID-START-SETTING` for the runtime, with the inode of its namespace of
 * process IDs. The runtime's other shims find it by that (shim/standalone.c).
 */
export class FurtherCalls {
  readonly #path: string;
  readonly #inode: number;
  readonly #calls = new Set<Promise<void>>();
  #lastEnd = performance.now();

  /** @param socket `INODE:PATH`: another socket may have the path by now */
  constructor(socket: string) {
    const colon = socket.indexOf(":");
    this.#path = socket.slice(colon + 1);
    this.#inode = Number(socket.slice(0, colon));
  }

  /** Waits for a call, which must not reject, and counts it until it ends. */
  async during(call: Promise<void>): Promise<void> {
    this.#calls.add(call);
    await call;
    this.#calls.delete(call);
    this.#lastEnd = performance.now();
  }

  /** Resolves when none runs, and no call has come for that time or no further one can come. */
  async whenOver(lingerMs: number): Promise<void> {
    const leftMs = (): number => this.#lastEnd + lingerMs - performance.now();
    while (this.#calls.size > 0 || (leftMs() > 0 && (await this.#isReachable())))
      await (this.#calls.size > 0 ? Promise.all(this.#calls) : sleep(Math.min(lookMs, leftMs())));
    if (await this.#hasName()) await ifPresent(unlink(this.#path));
    await removeAbandoned(dirname(this.#path));
    // The next shim makes it again.
    await rmdir(dirname(this.#path)).catch(() => undefined);
    await sleep(lastConnectionsMs);
    while (this.#calls.size > 0) await Promise.all(this.#calls);
  }

  async #isReachable(): Promise<boolean> {
    return (await this.#hasName()) && (await isOfRunning(basename(this.#path)));
  }

  /** A shim that got no answer removes the name, and another one can give it to its own process. */
  async #hasName(): Promise<boolean> {
    return (await ifPresent(stat(this.#path)))?.ino === this.#inode;
  }
}

/** Removes sockets of runtimes that have ended, whose processes were killed. */
async function removeAbandoned(dir: string): Promise<void> {
  for (const name of (await ifPresent(readdir(dir))) ?? [])
    if (!(await isOfRunning(name))) await unlink(join(dir, name)).catch(() => undefined);
}

/** Whether the runtime may run for which a socket is named. */
async function isOfRunning(name: string): Promise<boolean> {
  const [namespace, pid, start] = name.split("-");
  const own = await stat("/proc/self/ns/pid");
  if (namespace !== String(own.ino)) return true;
  const status = await ifPresent(readFile(`/proc/${pid}/stat`, "utf8"));
  // The 22nd field; the second one can contain spaces.
  return status?.slice(status.lastIndexOf(")") + 2).split(" ")[19] === start;
}
