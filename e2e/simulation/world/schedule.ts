import type { Random } from "./random.ts";

/** Something that happens at a time. */
interface ScheduledEvent {
  atUs: number;
  /** Decides between events of the same time. */
  readonly order: number;
  readonly owner: Process;
  run: (() => void) | undefined;
}

/** Something that happens before an event. */
interface Mark {
  /** Events until then. */
  left: number;
  readonly of: string;
  readonly run: (owner: Process) => void;
}

/** A running process of the simulated machine. When it ends, nothing that it began continues. */
export class Process {
  /** All that have not ended, in the order of their beginning. */
  static readonly alive = new Set<Process>();
  readonly name: string;
  #isAlive = true;
  /** What waits until a stopped process continues; undefined: it is not stopped. */
  delayed: ScheduledEvent[] | undefined;
  readonly #atEnd: (() => void)[] = [];

  constructor(name: string) {
    this.name = name;
    Process.alive.add(this);
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Use {@link Schedule.kill}. Tells those that wait for the end. */
  end(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    Process.alive.delete(this);
    for (const tell of this.#atEnd.splice(0)) tell();
  }

  /** Calls a function when the process ends; at once if it has ended. */
  onEnd(tell: () => void): void {
    if (this.#isAlive) this.#atEnd.push(tell);
    else tell();
  }
}

/**
 * The clock and the order of everything that happens. An event runs, and all promises that it makes
 * ready, before the next one. So only the events' times, which come from the seed, decide the order.
 */
export class Schedule {
  readonly #random: Random;
  /** A binary heap: the next event comes first. */
  readonly #events: ScheduledEvent[] = [];
  /** Stands for what is no process of the machine: its kernel, the network, people. */
  readonly outside = new Process("outside");
  #nowUs = 0;
  #current: Process = this.outside;
  #count = 0;
  /** Called with an error that an event of a live process throws. */
  onError: (error: unknown) => void = (error) => {
    throw error;
  };
  /** What happens before events of certain numbers. */
  #marks: Mark[] = [];

  /** Ends what an earlier history has left. */
  constructor(random: Random) {
    this.#random = random;
    Process.alive.clear();
  }

  /** Microseconds since the history began. */
  get nowUs(): number {
    return this.#nowUs;
  }

  /** The process whose code runs now. */
  get current(): Process {
    return this.#current;
  }

  /**
   * Runs a function later as a part of a process, unless the process has ended by then. Code of a
   * process that was killed may still run until its promises are settled; it changes nothing more.
   */
  at(delayUs: number, run: () => void, owner: Process = this.#current): ScheduledEvent {
    const atUs = this.#nowUs + Math.max(0, Math.round(delayUs));
    const event = { atUs, order: this.#random.next(), owner, run };
    if (this.#current.isAlive) this.#push(event);
    return event;
  }

  /** Ends all processes. */
  killAll(): void {
    for (const process of [...Process.alive]) if (process !== this.outside) this.kill(process);
  }

  /** Prevents an event that has not happened. */
  cancel(event: ScheduledEvent): void {
    event.run = undefined;
  }

  /** Resolves after a time, in the present process. */
  sleep(delayUs: number): Promise<void> {
    return new Promise((resolve) => {
      this.at(delayUs, resolve);
    });
  }

  /**
   * Resolves when a condition holds, or at a time. Looks less and less often, and calls `meanwhile`
   * each time that it does not hold after a pause.
   * @returns whether it holds
   */
  async until(
    isSo: () => boolean,
    endUs: number,
    meanwhile?: () => Promise<void>,
  ): Promise<boolean> {
    for (let pauseUs = 500_000; !isSo(); pauseUs = Math.min(2 * pauseUs, 30e6)) {
      if (this.#nowUs > endUs) return false;
      await this.sleep(pauseUs);
      if (meanwhile !== undefined && !isSo()) await meanwhile();
    }
    return true;
  }

  /** Runs events until `isOver`, or until there are none. */
  async run(isOver: () => boolean): Promise<void> {
    const ready = Promise.resolve();
    await new Promise<void>((resolve) => {
      const next = (): void => {
        if (isOver() || !this.#step()) resolve();
        // Runs after every promise that the event has made ready. queueMicrotask() is slower.
        else void ready.then(whenDrained);
      };
      const whenDrained = (): void => process.nextTick(next);
      next();
    });
  }

  /** Events so far. */
  get count(): number {
    return this.#count;
  }

  /**
   * Has something happen before the event of that number from now on, of all, or of processes whose
   * names begin so. `run` gets the process whose event it is.
   */
  beforeEvent(
    { event, of = "" }: { readonly event: number; readonly of?: string | undefined },
    run: (owner: Process) => void,
  ): void {
    this.#marks.push({ left: event, of, run });
  }

  /** Ends a process as SIGKILL does. What waits for its end runs later. */
  kill(victim: Process): void {
    const before = this.#current;
    this.#current = this.outside;
    victim.end();
    this.#current = before;
  }

  /** Stops a process as SIGSTOP does. */
  stop(process: Process): void {
    process.delayed ??= [];
  }

  /** Continues a process that may be stopped. What it missed happens in its order. */
  resume(process: Process): void {
    const delayed = process.delayed ?? [];
    process.delayed = undefined;
    for (const [index, event] of delayed.entries()) {
      event.atUs = this.#nowUs + index;
      this.#push(event);
    }
  }

  #step(): boolean {
    for (;;) {
      const event = this.#pop();
      if (event === undefined) return false;
      const { run, owner, atUs } = event;
      if (run === undefined || !owner.isAlive) continue;
      if (owner.delayed !== undefined) {
        owner.delayed.push(event);
        continue;
      }
      event.run = undefined;
      this.#nowUs = atUs;
      this.#count += 1;
      this.#mark(owner);
      if (!owner.isAlive) continue;
      this.#current = owner;
      try {
        run();
      } catch (error) {
        if (owner.isAlive) this.onError(error);
      }
      return true;
    }
  }

  #mark(owner: Process): void {
    if (this.#marks.length === 0) return;
    const due = this.#marks.filter((mark) => owner.name.startsWith(mark.of) && --mark.left === 0);
    if (due.length === 0) return;
    this.#marks = this.#marks.filter(({ left }) => left > 0);
    this.#current = this.outside;
    for (const { run } of due) run(owner);
  }

  #push(event: ScheduledEvent): void {
    const heap = this.#events;
    let index = heap.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as ScheduledEvent;
      if (!isBefore(event, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): ScheduledEvent | undefined {
    const heap = this.#events;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      const [left, right] = [heap[child] as ScheduledEvent, heap[child + 1]];
      if (right !== undefined && isBefore(right, left)) child += 1;
      const below = heap[child] as ScheduledEvent;
      if (!isBefore(below, last)) break;
      heap[index] = below;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(a: ScheduledEvent, b: ScheduledEvent): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order);
}
