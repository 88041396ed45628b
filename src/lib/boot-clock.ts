/**
 * Milliseconds of CLOCK_MONOTONIC: shared by all processes of Node and the shim, and unaffected by
 * setting the time. It stops while the machine is suspended, as its container runtime does. Under
 * Bun it begins with the process: see openBootClock() of plexus-standalone.
 */
export function bootClockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
