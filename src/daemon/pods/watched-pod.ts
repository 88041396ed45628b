import {
  type HotPlugOutcome,
  type LastAttempt,
  problemsOf,
} from "#engine/hotplug/reports/outcome.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { TokenBucket } from "#lib/concurrency/token-bucket.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import {
  defaultNetworkAnnotation,
  networksAnnotation,
  parseNetworkSelections,
} from "#npwg/selection/selection.ts";

/** Between attempts while another operation on the sandbox runs, which ends soon. */
const busyBackoff = { initialMs: 100, maxMs: 5000 };
/** Between attempts that fail, which may need people. */
const failureBackoff = { initialMs: 1000, maxMs: 300_000 };
/** Attempts that change something or fail: so many at once, and later one every five seconds. */
const rate = { burst: 10, tokensPerSecond: 0.2 };
/** The first edit starts an attempt at once. Edits within this time after it share the next attempt. */
const debounceMs = 200;
/** A definition that the annotation names ends the backoff at most this often. */
const definitionMs = 10_000;

/**
 * A pod of this node, and when the next attempt is due to give it the networks of its annotation.
 * Others only read its fields.
 */
export class WatchedPod {
  pod: Pod;
  /** Since when the annotations are as they are, by performance.now(). */
  seenAt: number;
  /** Whether the annotations changed since the pod was first seen. */
  isEdit = false;
  /** The networks (`namespace/name`) of its annotation, and those before until an attempt settles. */
  networks: ReadonlySet<string>;
  isRunning = false;
  readonly #onDue: (watched: WatchedPod) => void;
  readonly #busy = new Backoff(busyBackoff);
  readonly #failures = new Backoff(failureBackoff);
  readonly #rate = new TokenBucket(rate);
  /** The annotations that say what it is attached to. */
  #text: string;
  #state: "new" | "settled" | "waiting" | "busy" | "failed" = "new";
  #last: Omit<LastAttempt, "nextMs"> | undefined;
  #isGone = false;
  /** Whether the watch delivered the pod while an attempt was running. */
  #isSeenAgain = false;
  #lacksAgent = false;
  /** When the next attempt is due, and when by the backoff alone, by performance.now(). */
  #dueAt = Number.POSITIVE_INFINITY;
  #retryAt = 0;
  #nextEditAt = 0;
  #nextDefinitionAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(pod: Pod, onDue: (watched: WatchedPod) => void) {
    this.#onDue = onDue;
    this.pod = pod;
    this.#text = annotationsOf(pod);
    this.networks = networksOf(pod);
    this.seenAt = performance.now();
  }

  /** Whether its networks may not be those of its annotation. */
  get isPending(): boolean {
    return this.isRunning || this.#isRetrying || this.#dueAt !== Number.POSITIVE_INFINITY;
  }

  /** Milliseconds until its limit lets an attempt begin. */
  get waitMs(): number {
    return this.#rate.waitMs;
  }

  /** The last attempt, and in how many milliseconds the next one is due. */
  get lastAttempt(): LastAttempt | undefined {
    if (this.#last === undefined) return undefined;
    const dueMs = Math.max(this.#dueAt - performance.now(), this.#rate.waitMs);
    const nextMs = this.isRunning ? 0 : dueMs;
    return { ...this.#last, ...(nextMs !== Number.POSITIVE_INFINITY && { nextMs }) };
  }

  get #isRetrying(): boolean {
    return this.#state === "busy" || this.#state === "failed";
  }

  /** Takes the pod as the watch delivers it. */
  seen(pod: Pod): void {
    this.pod = pod;
    const text = annotationsOf(pod);
    if (text !== this.#text) this.#edited(text);
    else if (this.isRunning) this.#isSeenAgain = true;
    else if (this.#state === "waiting") this.wake();
  }

  #edited(text: string): void {
    const now = performance.now();
    this.#text = text;
    this.seenAt = now;
    this.isEdit = true;
    this.networks = new Set([...this.networks, ...networksOf(this.pod)]);
    this.#failures.reset();
    this.#retryAt = 0;
    const at = Math.max(now, this.#nextEditAt);
    if (this.#wakeAt(at)) this.#nextEditAt = at + debounceMs;
  }

  /** A definition has changed: it counts if the annotation names it and an attempt failed. */
  definitionChanged(name: string): void {
    if (!this.networks.has(name) || !(this.isRunning || this.#isRetrying)) return;
    const at = Math.max(performance.now(), this.#nextDefinitionAt);
    if (this.#wakeAt(at)) this.#nextDefinitionAt = at + definitionMs;
  }

  /** An agent has connected: it counts if there was none for the last attempt. */
  agentConnected(): void {
    if (this.#lacksAgent) this.wake();
  }

  /** An attempt that compares all of it is due, unless it fails anyway. */
  compare(): void {
    if (!this.#isRetrying) this.wake();
  }

  /** An attempt is due now. It does not change the backoff. */
  wake(): void {
    this.#wakeAt(performance.now());
  }

  /** An attempt begins. Call {@link end} when it has ended. */
  begin(): void {
    clearTimeout(this.#timer);
    this.#dueAt = Number.POSITIVE_INFINITY;
    this.isRunning = true;
    this.#isSeenAgain = false;
  }

  end(outcome: HotPlugOutcome, { lacksAgent }: { lacksAgent: boolean }): void {
    const { state, operations } = outcome;
    const now = performance.now();
    this.#state = state;
    this.#last = { state, at: new Date().toISOString(), problems: problemsOf(outcome) };
    this.#lacksAgent = this.#isRetrying && lacksAgent;
    if (state === "failed" || operations.length > 0) this.#rate.take();
    if (state !== "busy") this.#busy.reset();
    if (state === "busy") this.#wakeAt(now + this.#busy.next());
    else if (state === "failed") {
      // An attempt that something else started does not count.
      if (this.#retryAt <= now) this.#retryAt = now + this.#failures.next();
      this.#wakeAt(this.#retryAt);
    } else {
      this.#failures.reset();
      this.#retryAt = 0;
      if (this.#dueAt === Number.POSITIVE_INFINITY) this.networks = networksOf(this.pod);
      // What it waits for may have come before the attempt's end.
      if (state === "waiting" && this.#isSeenAgain) this.#wakeAt(now);
    }
    this.isRunning = false;
    this.#setTimer();
  }

  /** Nothing is attempted any more. */
  forget(): void {
    this.#isGone = true;
    clearTimeout(this.#timer);
  }

  /** Returns false if an attempt is due by then anyway. */
  #wakeAt(at: number): boolean {
    if (this.#dueAt <= at) return false;
    this.#dueAt = at;
    if (!this.isRunning) this.#setTimer();
    return true;
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    if (this.#isGone || this.#dueAt === Number.POSITIVE_INFINITY) return;
    const delayMs = Math.max(this.#dueAt - performance.now(), this.#rate.waitMs);
    if (delayMs <= 0) this.#due();
    else this.#timer = setTimeout(() => this.#due(), delayMs);
  }

  #due(): void {
    if (this.#dueAt >= this.#retryAt) this.#retryAt = 0;
    this.#onDue(this);
  }
}

/** The annotations that say what a pod is attached to, as one text. */
function annotationsOf({ annotations }: Pod): string {
  return JSON.stringify([annotations[networksAnnotation], annotations[defaultNetworkAnnotation]]);
}

function networksOf(pod: Pod): ReadonlySet<string> {
  return new Set(selectionsOf(pod).map(({ namespace, name }) => `${namespace}/${name}`));
}

/** The elements of the pod's annotation; none if it cannot be read. */
function selectionsOf({ namespace: podNamespace, annotations }: Pod): NetworkSelection[] {
  try {
    return parseNetworkSelections(annotations[networksAnnotation] ?? "", { podNamespace });
  } catch {
    return [];
  }
}
