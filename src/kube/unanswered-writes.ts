import { isDeepStrictEqual } from "node:util";
import type { ApiError } from "#kube/api/api-error.ts";
import { LruMap } from "#lib/lru-map.ts";

/** Far more than wait for an answer at a time. */
const maxObjects = 1000;

interface Unanswered {
  readonly values: unknown;
  /** Until when the API server may apply it, by performance.now(). */
  readonly until: number;
}

/** Writes whose answer did not come: the API server may apply them after later ones. */
export class UnansweredWrites {
  readonly #ageMs: number;
  readonly #byObject = new LruMap<readonly Unanswered[]>(maxObjects);

  /** By default as long as an API server works on a request. */
  constructor(ageMs = 60_000) {
    this.#ageMs = ageMs;
  }

  /** Notes a write that failed, unless the API server has certainly not applied it. */
  note(object: string, values: unknown, { status }: ApiError): void {
    if (![0, 502, 504].includes(status)) return;
    const until = performance.now() + this.#ageMs;
    this.#byObject.set(object, [...this.#mayCome(object), { values, until }]);
  }

  /** How many milliseconds an earlier write may still replace these values; 0 if none can. */
  mayReplaceMs(object: string, values: unknown): number {
    const others = this.#mayCome(object).filter((each) => !isDeepStrictEqual(each.values, values));
    if (others.length === 0) return 0;
    const leftMs = Math.max(...others.map(({ until }) => until - performance.now()));
    // A timer takes whole milliseconds, and may fire one too early: that would cost a further write.
    return Math.ceil(leftMs) + 1;
  }

  #mayCome(object: string): readonly Unanswered[] {
    const all = this.#byObject.peek(object) ?? [];
    const left = all.filter(({ until }) => until > performance.now());
    if (left.length === 0) this.#byObject.delete(object);
    return left;
  }
}
