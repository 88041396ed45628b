/**
 * Milliseconds on the kernel's monotonic clock, which all processes share and setting the machine's
 * clock does not change. Together with the boot's ID it dates events for later processes.
 */
export function bootClockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
