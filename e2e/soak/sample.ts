import { readdirSync, readFileSync } from "node:fs";

/** What plexusd holds at one time. */
export interface Sample {
  readonly seconds: number;
  /** Cycles completed by then. */
  readonly cycles: number;
  readonly residentKiB: number;
  readonly anonymousKiB: number;
  readonly descriptors: number;
  /** How late its event loop was at that time. */
  readonly delayMs: number;
}

/** Quantities of a sample that must not grow, and by how much per 1,000 cycles they may seem to. */
export const limits = {
  residentKiB: 2048,
  anonymousKiB: 2048,
  descriptors: 2,
  delayMs: 5,
} as const satisfies Partial<Record<keyof Sample, number>>;

/** Measures a plexusd that serves /metrics at `metricsUrl`. */
export async function takeSample(
  pid: number,
  metricsUrl: string,
  progress: Pick<Sample, "seconds" | "cycles">,
): Promise<Sample> {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? Number.NaN);
  const metrics = await (await fetch(metricsUrl)).text();
  const delay = /^nodejs_eventloop_lag_seconds (\S+)/m.exec(metrics)?.[1];
  return {
    ...progress,
    residentKiB: field("VmRSS"),
    anonymousKiB: field("RssAnon"),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    delayMs: Number(delay) * 1000,
  };
}

/** Samples as a table with commas. */
export function toCsv(samples: readonly Sample[]): string {
  const [first] = samples;
  if (first === undefined) return "";
  const keys = Object.keys(first) as (keyof Sample)[];
  const rows = samples.map((s) => keys.map((key) => Number(s[key].toFixed(2))).join(","));
  return `${[keys.join(","), ...rows].join("\n")}\n`;
}
