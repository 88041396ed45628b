/**
 * Milliseconds on the kernel's monotonic clock: every process of a boot reads the same time, and setting the machine's
 * clock does not change it. With the boot's ID it dates what another process reads later.
 */
export function bootClockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
