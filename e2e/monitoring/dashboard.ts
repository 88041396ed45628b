import type { Prometheus, Range, Series } from "./prometheus.ts";
import type { Panel } from "./shipped.ts";

/** A line of a panel: a point for each time, or one for the last. */
export interface Line {
  readonly name: string;
  /** The query of the panel that it answers. */
  readonly refId: string;
  readonly points: readonly (readonly [time: number, value: number])[];
}

/** A panel with what a Prometheus answered to its queries. */
export interface FilledPanel {
  readonly panel: Panel;
  readonly lines: readonly Line[];
}

/** Asks a Prometheus for everything that a dashboard shows. @throws Error when it cannot evaluate a query */
export async function fillPanels(
  prometheus: Prometheus,
  panels: readonly Panel[],
  range: Range,
): Promise<FilledPanel[]> {
  const filled: FilledPanel[] = [];
  for (const panel of panels) {
    const lines: Line[] = [];
    for (const { expr, legendFormat, refId } of panel.targets) {
      const series =
        panel.type === "timeseries"
          ? await prometheus.queryRange(expr, range)
          : await prometheus.query(expr);
      lines.push(...series.map((each) => ({ ...lineOf(each, legendFormat), refId })));
    }
    filled.push({ panel, lines });
  }
  return filled;
}

function lineOf({ metric, value, values }: Series, legendFormat: string): Omit<Line, "refId"> {
  const name = legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? "");
  const samples = values ?? (value === undefined ? [] : [value]);
  const points = samples.map(([time, text]) => [time, Number(text)] as const);
  return {
    name: name === "" ? Object.values(metric).join(" ") : name,
    points: points.filter(([, number]) => Number.isFinite(number)),
  };
}
