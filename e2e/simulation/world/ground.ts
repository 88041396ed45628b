import type { Faults } from "./faults.ts";
import type { Random } from "./random.ts";
import type { Schedule } from "./schedule.ts";

/** How the machine's start looks to its processes. */
export interface Boot {
  /** When the monotonic clock was zero, in microseconds of the history. */
  readonly clockFromUs: number;
  /** What a container sees if it is not the node's boot ID, as on nodes that are containers. */
  readonly containerBootId?: string;
}

/** What the parts of a world stand on: they do not know each other. */
export interface Ground {
  readonly random: Random;
  readonly schedule: Schedule;
  readonly faults: Faults;
  /** What the kernel shows in files of /proc, and its monotonic clock. */
  readonly kernel: Boot & { readonly bootId: string; lockedInodes(): readonly number[] };
  /** The machine's clock shows so many milliseconds more than the time since the history began. */
  clockOffsetMs: number;
  /** Ends all processes at once. The machine starts again later. */
  losePower(): void;
  /** Takes down what happens, for people and to compare histories. */
  note(text: () => string): void;
}

let present: Ground | undefined;

/** The ground of the present history. @throws Error when there is none */
export function ground(): Ground {
  if (present === undefined) throw new Error("no history is running");
  return present;
}

/** Use `enterWorld()`. */
export function enterGround(next: Ground): void {
  present = next;
}

/** Milliseconds since 1970 on the machine's clock. */
export function clockMs(): number {
  const { schedule, clockOffsetMs } = ground();
  return schedule.nowUs / 1000 + clockOffsetMs;
}

/** Milliseconds on the monotonic clock. */
export function monotonicMs(): number {
  const { schedule, kernel } = ground();
  return (schedule.nowUs - kernel.clockFromUs) / 1000;
}
