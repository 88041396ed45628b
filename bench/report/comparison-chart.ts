import type { CaseResult, Results } from "../results.ts";
import { colorOf } from "./colors.ts";
import { element, picture, text } from "./svg.ts";

const columns = 3;
const panel = { width: 340, labels: 118, values: 62, rowHeight: 27, top: 34, gap: 20 };
const header = 64;

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
  const height = panel.top + rows * panel.rowHeight + panel.gap;
  const width = 20 + columns * (panel.width + 20);
  const title = "Plexus and Multus, side by side";
  const subtitle = "Medians in milliseconds where nothing else is said; shorter is better.";
  return picture(
    { width, height: header + Math.ceil(panels.length / columns) * height, title },
    text(title, { x: 20, y: 28, "font-size": 18, "font-weight": "bold" }),
    text(`${subtitle} Each panel has its scale.`, { x: 20, y: 48, fill: "#5f6368" }),
    ...legend(width - 150),
    ...panels.map((each, nth) => {
      const x = 20 + (nth % columns) * (panel.width + 20);
      const y = header + Math.floor(nth / columns) * height;
      return element("g", { transform: `translate(${x} ${y})` }, ...drawn(each));
    }),
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

function legend(x: number): string[] {
  const key = (at: number, label: string, opacity: number): string[] => [
    element("rect", { x: at, y: 38, width: 14, height: 10, fill: "#5f6368", opacity }),
    text(label, { x: at + 19, y: 47 }),
  ];
  return [...key(x, "ADD", 1), ...key(x + 65, "DEL", 0.45)];
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
  const label = { x: panel.labels - 8, "text-anchor": "end" };
  const bars = values.flatMap((value, nth) => {
    const y = at.y + 1 + nth * 12;
    const length = value * at.scale;
    const look = { fill: colorOf(name), opacity: nth === 0 ? 1 : 0.45 };
    return [
      element("rect", { x: panel.labels, y, width: Math.max(1, length), height: 11, ...look }),
      text(written(value), { x: panel.labels + length + 5, y: y + 10, "font-size": 10 }),
    ];
  });
  return [
    text(name, { ...label, y: at.y + 12, "font-size": 11 }),
    ...(warning === undefined
      ? []
      : [text(warning, { ...label, y: at.y + 23, "font-size": 9, fill: "#b3261e" })]),
    ...bars,
  ];
}

function written(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}
