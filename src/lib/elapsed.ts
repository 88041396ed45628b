/**
 * Milliseconds between now and a time of the machine's clock, such as a file's. The absolute value:
 * after the clock was set back, nothing waits for a future time.
 */
export function elapsedMs(then: number, now: number = Date.now()): number {
  return Math.abs(now - then);
}
