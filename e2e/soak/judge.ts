import { markdownTable } from "../support/markdown.ts";
import { limits, type Sample } from "./sample.ts";
import { binMedians, fitLine } from "./slope.ts";

/** The first part of a run, in which caches fill and the collector finds its pace. */
const warmUpPart = 1 / 3;
const bins = 20;
/** Memory grows for some hundred cycles before the collector has found its pace: a short run says nothing of it. */
const neededCycles = 1500;
const judgedInAnyRun: readonly string[] = ["descriptors"];

/** How one quantity went. */
export interface Verdict {
  readonly quantity: keyof typeof limits;
  readonly first: number;
  readonly last: number;
  /** Per 1,000 cycles. */
  readonly slope: number;
  readonly standardError: number;
  readonly limit: number;
  readonly outcome: "steady" | "grows" | "run too short to tell";
}

/**
 * Whether what a daemon holds grows: the line through the samples after the warm-up is steeper than
 * the limit by more than two standard errors.
 */
export function judge(samples: readonly Sample[]): Verdict[] {
  const total = samples.at(-1)?.cycles ?? 0;
  const settled = samples.filter((s) => s.cycles >= total * warmUpPart);
  return (Object.keys(limits) as (keyof typeof limits)[]).map((quantity) => {
    const points = binMedians(
      settled.map((s) => ({ x: s.cycles / 1000, y: s[quantity] })),
      bins,
    );
    const { slope, standardError } = fitLine(points);
    const limit = limits[quantity];
    return {
      quantity,
      first: points[0]?.y ?? Number.NaN,
      last: points.at(-1)?.y ?? Number.NaN,
      slope,
      standardError,
      limit,
      outcome: isTooShort(quantity, total)
        ? "run too short to tell"
        : slope - 2 * standardError > limit
          ? "grows"
          : "steady",
    };
  });
}

function isTooShort(quantity: string, cycles: number): boolean {
  return !judgedInAnyRun.includes(quantity) && cycles < neededCycles;
}

/** The verdicts as Markdown. */
export function formatVerdicts(verdicts: readonly Verdict[]): string {
  const cells = (v: Verdict): string[] => [
    v.quantity,
    v.first.toFixed(1),
    v.last.toFixed(1),
    `${v.slope.toFixed(1)} ± ${(2 * v.standardError).toFixed(1)}`,
    String(v.limit),
    v.outcome,
  ];
  const head = ["", "after the warm-up", "at the end", "per 1,000 cycles", "limit", ""];
  return markdownTable(head, verdicts.map(cells));
}
