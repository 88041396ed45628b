import type { Collection } from "#kube/testing/collection.ts";
import type { StoreRequest } from "#kube/testing/object-store.ts";
import { ground } from "../world/ground.ts";
import type { Process, Schedule } from "../world/schedule.ts";

/** The client's end of a watch. */
export interface WatchReceiver {
  readonly process: Process;
  line(text: string): void;
  /** The response ends; with an error, because the connection breaks. */
  end(error?: Error): void;
}

const secondUs = 1_000_000;
const bookmarkUs = 60 * secondUs;

/** The server's end of a watch: sends changes one after another, and a bookmark every minute. */
export class WatchStream {
  readonly #collection: Collection;
  readonly #timeoutSeconds: number;
  readonly #isPartial: boolean;
  /** The number of the next change to send. */
  #next: number;
  #receiver: WatchReceiver | undefined;
  #isSending = false;
  #isBookmarkDue = false;
  #timers: ReturnType<Schedule["at"]>[] = [];

  constructor(collection: Collection, { query, isPartial }: StoreRequest) {
    this.#collection = collection;
    this.#timeoutSeconds = Number(query.timeoutSeconds);
    this.#isPartial = isPartial;
    this.#next = collection.firstAfter(Number(query.resourceVersion));
  }

  /** The client has received the headers: sends to it from now on. */
  open(receiver: WatchReceiver): void {
    const { schedule } = ground();
    this.#receiver = receiver;
    this.#collection.streams.add(this);
    receiver.process.onEnd(() => this.close());
    this.#timers[0] = schedule.at(
      this.#timeoutSeconds * secondUs,
      () => this.#end("the time is over"),
      schedule.outside,
    );
    this.#waitForBookmark();
    this.send();
  }

  /** Sends what there is to send, after what is being sent. */
  send(): void {
    if (this.#isSending || this.#receiver === undefined) return;
    const { change, isBookmark } = this.#due();
    if (change === undefined && !isBookmark) return;
    this.#isSending = true;
    const fault = change === "expired" ? "expires" : ground().faults.watch();
    if (fault === "silent") this.#fallSilent();
    else if (fault === "ends") this.#end("ended by the server");
    else if (fault === "expires") this.#expire();
    else this.#deliverNext(fault);
  }

  /** The connection breaks. */
  break(): void {
    this.#end("connection broken", { error: new Error("aborted") });
  }

  /** The client has left. */
  close(): void {
    this.#receiver = undefined;
    this.#collection.streams.delete(this);
    for (const timer of this.#timers) ground().schedule.cancel(timer);
  }

  #due() {
    const change = this.#collection.change(this.#next);
    return { change, isBookmark: change === undefined && this.#isBookmarkDue };
  }

  #deliverNext(delayUs: number): void {
    ground().schedule.at(
      delayUs,
      () => {
        const receiver = this.#receiver;
        if (receiver === undefined) return;
        this.#isSending = false;
        const { change, isBookmark } = this.#due();
        if (change === "expired") this.#expire();
        else if (change !== undefined) {
          this.#next += 1;
          this.#note(() => `${change.type} ${change.key} @${change.version}`);
          receiver.line(this.#collection.eventOf(change, this.#isPartial));
        } else if (isBookmark) {
          this.#isBookmarkDue = false;
          this.#note(() => `BOOKMARK @${this.#collection.versions.current}`);
          receiver.line(this.#collection.bookmark(this.#isPartial));
        }
        this.send();
      },
      this.#receiver?.process,
    );
  }

  #waitForBookmark(): void {
    const { schedule } = ground();
    this.#timers[1] = schedule.at(
      bookmarkUs,
      () => {
        this.#isBookmarkDue = true;
        this.#waitForBookmark();
        this.send();
      },
      schedule.outside,
    );
  }

  /** The connection is half-open: the client hears nothing more, not even its end. */
  #fallSilent(): void {
    this.#note(() => "falls silent");
    this.close();
  }

  #expire(): void {
    const message = "The resourceVersion for the provided watch is too old.";
    const status = `{"kind":"Status","code":410,"reason":"Expired","message":"${message}"}`;
    this.#end("410 Expired", { line: `{"type":"ERROR","object":${status}}` });
  }

  #end(why: string, last: { readonly line?: string; readonly error?: Error } = {}): void {
    const receiver = this.#receiver;
    if (receiver === undefined) return;
    const { schedule, random } = ground();
    this.#note(() => why);
    schedule.at(
      random.duration(20, 200),
      () => {
        if (last.line !== undefined) receiver.line(last.line);
        receiver.end(last.error);
      },
      receiver.process,
    );
    this.close();
  }

  #note(text: () => string): void {
    const name = this.#receiver?.process.name;
    ground().note(() => `api: watch of ${this.#collection.resource} by ${name}: ${text()}`);
  }
}
