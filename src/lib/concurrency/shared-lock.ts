interface Waiting {
  readonly exclusive: boolean;
  grant(): void;
}

/** Many readers or one writer, first come first served: a waiting writer holds new readers. */
export class SharedLock {
  #readers = 0;
  #writer = false;
  readonly #queue: Waiting[] = [];

  /** Held together with other shared holders. */
  shared(): Promise<Disposable> {
    return this.#acquire(false);
  }

  /** Takes the lock with other shared holders if possible at once; undefined otherwise. */
  tryShared(): Disposable | undefined {
    if (this.#queue.length > 0 || this.#writer) return undefined;
    this.#readers++;
    return this.#lease(false);
  }

  /** Held alone. */
  exclusive(): Promise<Disposable> {
    return this.#acquire(true);
  }

  #acquire(exclusive: boolean): Promise<Disposable> {
    return new Promise((resolve) => {
      this.#queue.push({ exclusive, grant: () => resolve(this.#lease(exclusive)) });
      this.#next();
    });
  }

  #lease(exclusive: boolean): Disposable {
    const lease = new DisposableStack();
    lease.defer(() => {
      if (exclusive) this.#writer = false;
      else this.#readers--;
      this.#next();
    });
    return lease;
  }

  #next(): void {
    for (let head = this.#queue[0]; head !== undefined && this.#free(head); head = this.#queue[0]) {
      this.#queue.shift();
      if (head.exclusive) this.#writer = true;
      else this.#readers++;
      head.grant();
    }
  }

  #free(waiting: Waiting): boolean {
    return !this.#writer && (!waiting.exclusive || this.#readers === 0);
  }
}
