/**
 * Milliseconds on the monotonic clock: shared by all processes of Node, unaffected by setting the
 * time. Under Bun it begins with the process: see openBootClock() of plexus-standalone.
 */
export function bootClockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
