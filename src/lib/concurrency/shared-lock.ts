/** Many readers or one writer, first come first served: a waiting writer holds new readers. */
export class SharedLock {
  #readers = 0;
  #writer = false;
  readonly #queue: { readonly exclusive: boolean; readonly grant: () => void }[] = [];

  /** Held together with other shared holders. */
  shared(): Promise<Disposable> {
    return this.#acquire(false);
  }

  /** Takes the lock with other shared holders if possible at once; undefined otherwise. */
  tryShared(): Disposable | undefined {
    if (this.#queue.length > 0 || this.#writer) return undefined;
    return this.#lease(false);
  }

  /** Held alone. @throws the signal's reason when that fires first */
  exclusive(signal?: AbortSignal): Promise<Disposable> {
    return this.#acquire(true, signal);
  }

  #acquire(exclusive: boolean, signal?: AbortSignal): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        reject(signal?.reason);
        this.#next();
      };
      const waiting = {
        exclusive,
        grant: () => {
          signal?.removeEventListener("abort", giveUp);
          resolve(this.#lease(exclusive));
        },
      };
      this.#queue.push(waiting);
      if (signal?.aborted === true) return giveUp();
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#next();
    });
  }

  #lease(exclusive: boolean): Disposable {
    if (exclusive) this.#writer = true;
    else this.#readers++;
    const lease = new DisposableStack();
    lease.defer(() => {
      if (exclusive) this.#writer = false;
      else this.#readers--;
      this.#next();
    });
    return lease;
  }

  #next(): void {
    for (let [head] = this.#queue; head && this.#isFree(head.exclusive); [head] = this.#queue) {
      this.#queue.shift();
      head.grant();
    }
  }

  #isFree(exclusive: boolean): boolean {
    return !this.#writer && (!exclusive || this.#readers === 0);
  }
}
