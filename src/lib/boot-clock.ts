/** Milliseconds on the monotonic clock: shared by all processes, unaffected by setting the time. */
export function bootClockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
