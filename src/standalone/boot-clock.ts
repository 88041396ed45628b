/**
 * The clock of `bootClockMs()` for a process of Bun, whose `process.hrtime` begins with the process:
 * the shim reads it, and tells it the process that it starts.
 * @param startedUs PLEXUS_CLOCK_US
 * @throws Error without it
 */
export function openBootClock(startedUs: string | undefined): () => number {
  const startedAtMs = Number(startedUs) / 1000;
  if (!(startedAtMs > 0)) {
    throw new Error(
      `PLEXUS_CLOCK_US=${startedUs}: not a number of microseconds; install the shim of this release`,
    );
  }
  return () => startedAtMs + performance.now();
}
