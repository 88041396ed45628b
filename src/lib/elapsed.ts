/** Milliseconds between now and a clock time, absolute in case the clock was set back. */
export function elapsedMs(then: number, now: number = Date.now()): number {
  return Math.abs(now - then);
}
