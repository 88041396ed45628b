/**
 * The clock of `bootClockMs()` for a process of Bun, whose `process.hrtime` begins with the process:
 * the shim reads it and the date, and tells both to the process that it starts. On a busy node, that
 * begins seconds later, as the date shows. If the date was set meanwhile, this clock differs as much.
 * @param readings PLEXUS_CLOCK_US: `CLOCK/DATE`
 * @throws Error without it
 */
export function openBootClock(readings = ""): () => number {
  const [clockMs = 0, dateMs = 0] = readings.split("/").map((us) => Number(us) / 1000);
  if (!(clockMs > 0 && dateMs > 0)) {
    throw new Error(
      `PLEXUS_CLOCK_US=${readings}: not two numbers of microseconds; install the shim of this release`,
    );
  }
  const startedAtMs = clockMs + Math.max(0, performance.timeOrigin - dateMs);
  return () => startedAtMs + performance.now();
}
