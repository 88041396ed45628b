import { type AssertionReporters, reportBroken } from "#engine/ports/assertions.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { SharedLock } from "#lib/concurrency/shared-lock.ts";

/** Locks of this process: calls for a sandbox run in turn, and GC alone (CNI 1.1.0 §4 "GC"). */
export class SandboxLocks {
  readonly #reporters: AssertionReporters;
  /** Held by all operations on sandboxes, and by garbage collection alone. */
  readonly all = new SharedLock();
  readonly #each = new KeyedMutex();
  /** Counted apart from the locks, to assert what they are for. */
  readonly #held = new Set<string>();

  constructor(reporters: AssertionReporters) {
    this.#reporters = reporters;
  }

  /** Locks a sandbox, and excludes garbage collection. */
  async acquire(containerId: string): Promise<Disposable> {
    using locks = new DisposableStack();
    locks.use(await this.all.shared());
    locks.use(await this.#each.acquire(containerId));
    locks.use(this.#hold(containerId));
    return locks.move();
  }

  /** Locks a sandbox for a caller that holds {@link all}; undefined if a call for it is in flight. */
  tryAcquire(containerId: string): Disposable | undefined {
    const lock = this.#each.tryAcquire(containerId);
    if (lock === undefined) return undefined;
    using locks = new DisposableStack();
    locks.use(lock);
    locks.use(this.#hold(containerId));
    return locks.move();
  }

  isInUse(containerId: string): boolean {
    return this.#each.has(containerId);
  }

  #hold(containerId: string): Disposable {
    if (this.#held.has(containerId))
      reportBroken(this.#reporters, "operations_overlap", { containerId });
    this.#held.add(containerId);
    return {
      [Symbol.dispose]: () => {
        if (!this.#held.delete(containerId))
          reportBroken(this.#reporters, "released_twice", { containerId });
      },
    };
  }
}
