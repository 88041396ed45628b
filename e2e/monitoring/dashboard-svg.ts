import { linePlot } from "../support/svg/line-plot.ts";
import { element, picture, text } from "../support/svg/svg.ts";
import type { FilledPanel, Line } from "./dashboard.ts";

/** Pixels of one step of Grafana's grid, and between two panels. */
const [column, row, gap] = [50, 34, 8];
const colors = "#3274d9 #e0752d #299c46 #c4162a #8f3bb8 #b8860b #00838f #555".split(" ");

const mebibyte = 2 ** 20;

type Box = Readonly<Record<"x" | "y" | "width" | "height", number>>;

/** A dashboard as a picture: every panel at its place in the grid, with its title, unit and data. */
export function dashboardSvg(panels: readonly FilledPanel[]): string {
  const rows = Math.max(...panels.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h));
  const title = "The dashboard of deploy/monitoring with the data of a node";
  return picture({ width: 24 * column, height: rows * row, title }, ...panels.map(panelSvg));
}

type Drawing = (box: Box, filled: FilledPanel) => string[];

const drawings: Readonly<Record<string, Drawing>> = { stat, timeseries };

function panelSvg(filled: FilledPanel): string {
  const { panel } = filled;
  const { x, y, w, h } = panel.gridPos;
  const box = { x: 0, y: 0, width: w * column - gap, height: h * row - gap };
  const drawn = (drawings[panel.type] ?? table)(box, filled);
  const frame = { width: box.width, height: box.height, fill: "#fff", stroke: "#d8d9da", rx: 3 };
  return element(
    "g",
    { transform: `translate(${x * column + gap / 2} ${y * row + gap / 2})` },
    element("rect", frame),
    text(panel.title, { x: 8, y: 20, "font-weight": 600 }),
    ...drawn,
  );
}

function stat({ width, height }: Box, { panel, lines }: FilledPanel): string[] {
  const shown = lines[0]?.points.at(-1);
  const { unit } = panel.fieldConfig.defaults;
  const value = shown === undefined ? "no data" : valueText(shown[1], unit);
  const at = { x: width / 2, y: height / 2 + 24, "text-anchor": "middle" };
  return [text(value, { ...at, "font-size": 40, fill: "#3274d9" })];
}

/** A row for each name, and a column for each query. */
function table({ width }: Box, { panel, lines }: FilledPanel): string[] {
  const rows = [...new Set(lines.map(({ name }) => name))];
  const atX = (column: number): number => width * ((column + 1.4) / (panel.targets.length + 1));
  const cell = (words: string, at: { x: number; y: number }): string =>
    text(words, { ...at, "text-anchor": "middle" });
  return [
    ...rows.map((name, n) => text(name, { x: 10, y: 66 + n * 18 })),
    ...panel.targets.flatMap(({ refId }, n) => {
      const { title, unit } = columnOf(panel, refId);
      const values = lines.filter((line) => line.refId === refId);
      return [
        cell(title, { x: atX(n), y: 46 }),
        ...values.map(({ name, points }) =>
          cell(valueText(points.at(-1)?.[1] ?? 0, unit), {
            x: atX(n),
            y: 66 + rows.indexOf(name) * 18,
          }),
        ),
      ];
    }),
  ];
}

/** Title and unit of the column of a table that a query fills. */
function columnOf(
  { fieldConfig, transformations = [] }: FilledPanel["panel"],
  refId: string,
): { title: string; unit: string } {
  const titles = transformations.map(({ options }) => options.renameByName?.[`Value #${refId}`]);
  const title = titles.find((each) => each !== undefined) ?? "";
  const own = fieldConfig.overrides.find(({ matcher }) => matcher.options === title);
  const unit = own?.properties.find(({ id }) => id === "unit")?.value;
  return { title, unit: unit ?? fieldConfig.defaults.unit };
}

/** Lines over time, with three lines of the scale, the times at both ends, and a legend of as many names as fit. */
function timeseries({ width, height }: Box, { panel, lines }: FilledPanel): string[] {
  const { unit } = panel.fieldConfig.defaults;
  const plot = { x: 66, y: 34, width: width - 82, height: height - 92 };
  const points = lines.flatMap((line) => line.points);
  const times = points.map(([time]) => time);
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const top = scaleOf(Math.max(0, ...points.map(([, value]) => value)), unit);
  const grid = [0, top / 2, top];
  const labelOf = (value: number): string => valueText(value, unit);
  const colored = lines.map((line, n) => ({ ...line, color: colorOf(n) }));
  const below = plot.y + plot.height + 16;
  const ago = `${Math.round((to - from) / 6) / 10} minutes ago`;
  return [
    ...linePlot({ box: plot, from, to, grid, labelOf, lines: colored, dot: 1 }),
    text(ago, { x: plot.x, y: below }),
    text("now", { x: plot.x + plot.width, y: below, "text-anchor": "end" }),
    ...legend({ x: 10, y: below + 18, width: width - 20, height: 2 }, lines),
  ];
}

/** Pixels of a name in a legend. */
const nameWidth = 155;

/** Names in their colours, from left to right; `height` is in lines. */
function legend(box: Box, lines: readonly Line[]): string[] {
  const perLine = Math.max(1, Math.floor(box.width / nameWidth));
  const fitting = perLine * box.height;
  const shown = lines.length > fitting ? fitting - 1 : lines.length;
  const names = lines.slice(0, shown).map(({ name }) => name);
  if (shown < lines.length) names.push(`and ${lines.length - shown} more`);
  return names.map((name, n) => {
    const at = { x: box.x + (n % perLine) * nameWidth, y: box.y + Math.floor(n / perLine) * 16 };
    const fill = n < shown ? colorOf(n) : "#555";
    return text(`– ${name}`.slice(0, 25), { ...at, fill, "font-size": 11 });
  });
}

function colorOf(line: number): string {
  return colors[line % colors.length] ?? "#555";
}

/** The upper end of a scale that a value in a unit of Grafana's fits into: 1, 2 or 5 times a power of ten. */
function scaleOf(highest: number, unit: string): number {
  if (highest <= 0) return 1;
  if (unit === "bytes") return scaleOf(highest / mebibyte, "short") * mebibyte;
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * ([1, 2, 5].find((step) => highest <= step * power) ?? 10);
}

/** A value in a unit of Grafana's, with three significant digits. */
function valueText(value: number, unit: string): string {
  if (unit === "bytes") return `${short(value / mebibyte)} MiB`;
  if (unit === "Bps") return `${short(value)} B/s`;
  if (unit === "reqps") return `${short(value)} req/s`;
  if (unit === "s")
    return value > 0 && value < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`;
  return short(value);
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}
