import { text } from "../../e2e/support/svg/svg.ts";
import type { CaseResult, Results } from "../results.ts";
import { barLine, chart } from "./chart.ts";
import { colorOf } from "./colors.ts";

const panel = { width: 340, labels: 118, values: 62, rowHeight: 27, top: 34 };
/** How opaque the first and the second bar are, for the end of a colour. */
const shades = ["ff", "73"];

/** A contender's bars in a panel: one, or two, the second in a paler colour. */
interface Bars {
  readonly name: string;
  readonly values: readonly number[];
  /** In red below the name. */
  readonly warning?: string;
}

interface Panel {
  readonly title: string;
  readonly rows: readonly Bars[];
}

/** One panel for each case, with the medians of ADD and DEL, and one each for CPU time, memory and requests. */
export function comparisonChart(results: Results): string {
  const panels = [...results.cases.map(casePanel), ...costPanels(results)];
  const rows = Math.max(...panels.map((each) => each.rows.length));
  const what = "Medians in milliseconds where nothing else is said; shorter is better.";
  return chart(
    {
      title: "Plexus and Multus, side by side",
      subtitle: `${what} Each panel has its scale.`,
      keys: ["ADD", "DEL"].map((name, nth) => ({ name, color: `#5f6368${shades[nth]}` })),
      columns: 3,
      size: { width: panel.width, height: panel.top + rows * panel.rowHeight },
    },
    panels.map(drawn),
  );
}

function casePanel({ title, rows }: CaseResult): Panel {
  return {
    title: rows.some(({ burst }) => burst !== undefined) ? `${title}: all of them` : title,
    rows: rows.map(({ name, add, del, burst, failures }) => ({
      name,
      values: [burst?.add ?? add.p50, burst?.del ?? del.p50],
      ...(failures > 0 && { warning: `${failures} failed` }),
    })),
  };
}

function costPanels({ cases, memory }: Results): Panel[] {
  const rows = cases.find(({ id }) => id === "real")?.rows ?? [];
  const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
  const own = (contender: string): number =>
    sum(
      memory
        .filter((each) => each.contender === contender && each.when !== "after its start")
        .map((each) => each.memory.anonymous),
    );
  const panelOf = (title: string, value: (row: (typeof rows)[number]) => number): Panel => ({
    title,
    rows: rows.map((row) => ({ name: row.name, values: [value(row)] })),
  });
  return [
    panelOf("CPU time for a pod (ptp and macvlan), ms", ({ cpuMs }) => cpuMs ?? 0),
    panelOf("Private memory during a call, MiB", ({ name }) => own(name)),
    panelOf("Requests to the API for a pod (ptp and macvlan)", ({ requests }) =>
      sum(Object.values(requests)),
    ),
  ];
}

function drawn({ title, rows }: Panel): string[] {
  const longest = Math.max(...rows.flatMap(({ values }) => values), 0.001);
  const scale = (panel.width - panel.labels - panel.values) / longest;
  return [
    text(title, { x: 0, y: 16, "font-weight": "bold" }),
    ...rows.flatMap((row, nth) => rowOf(row, { y: panel.top + nth * panel.rowHeight, scale })),
  ];
}

function rowOf({ name, values, warning }: Bars, at: { y: number; scale: number }): string[] {
  const { labels } = panel;
  const red = {
    x: labels - 8,
    y: at.y + 23,
    "text-anchor": "end",
    "font-size": 9,
    fill: "#b3261e",
  };
  return [
    ...(warning === undefined ? [] : [text(warning, red)]),
    ...values.flatMap((value, nth) => {
      const bar = { from: 0, to: value * at.scale, color: `${colorOf(name)}${shades[nth]}` };
      const line = { value: written(value), y: at.y + 1 + nth * 12, labels };
      return barLine(nth === 0 ? name : "", [bar], line);
    }),
  ];
}

function written(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}
