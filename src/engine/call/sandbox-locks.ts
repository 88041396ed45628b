import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { SharedLock } from "#lib/concurrency/shared-lock.ts";

/** Locks of this process: calls for a sandbox run in turn, and GC alone (CNI 1.1.0 §4 "GC"). */
export class SandboxLocks {
  readonly #all = new SharedLock();
  readonly #each = new KeyedMutex();

  /** Locks a sandbox, and excludes garbage collection. */
  async acquire(containerId: string): Promise<Disposable> {
    using locks = new DisposableStack();
    locks.use(await this.#all.shared());
    locks.use(await this.#each.acquire(containerId));
    return locks.move();
  }

  /** Excludes garbage collection, for a caller that uses {@link tryAcquire}. */
  shared(): Promise<Disposable> {
    return this.#all.shared();
  }

  /** The same without waiting; undefined while garbage collection runs or waits. */
  tryShared(): Disposable | undefined {
    return this.#all.tryShared();
  }

  /** Excludes every other operation. @throws the signal's reason when that fires first */
  exclusive(signal?: AbortSignal): Promise<Disposable> {
    return this.#all.exclusive(signal);
  }

  /** Locks a sandbox under {@link shared}; undefined when a call for it is in flight. */
  tryAcquire(containerId: string): Disposable | undefined {
    return this.#each.tryAcquire(containerId);
  }

  isInUse(containerId: string): boolean {
    return this.#each.has(containerId);
  }
}
