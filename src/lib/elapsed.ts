/**
 * Milliseconds between a time of the machine's clock, such as a file's, and now. Where the clock was set back since, the
 * time lies in the future: it counts as being as long ago, so that nothing waits for it to come.
 */
export function elapsedMs(then: number, now: number = Date.now()): number {
  return Math.abs(now - then);
}
