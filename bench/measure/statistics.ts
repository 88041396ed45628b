/** Durations in milliseconds, as a table shows them. */
export interface Summary {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

export function summarize(times: readonly number[]): Summary {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part: number): number =>
    sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0;
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

/** Undefined of none. */
export function median(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : summarize(values).p50;
}
