import { linePlot } from "../../e2e/support/svg/line-plot.ts";
import { type Attributes, text } from "../../e2e/support/svg/svg.ts";
import type { Growth, Results } from "../results.ts";
import { chart } from "./chart.ts";
import { colorOf } from "./colors.ts";

const plot = { width: 260, height: 150, left: 48, top: 34, bottom: 46 };
const size = { width: plot.left + plot.width + 12, height: plot.top + plot.height + plot.bottom };

/** One plot for each kind of growth, both axes linear and from zero: what grows linearly is a straight line. */
export function growthChart({ growth }: Results): string {
  const names = [...new Set(growth.flatMap(({ lines }) => lines.map(({ name }) => name)))];
  const keys = names.map((name) => ({ name, color: colorOf(name) }));
  const subtitle = "Both axes are linear and start at zero.";
  return chart({ title: "How it grows", subtitle, keys, columns: 3, size }, growth.map(plotOf));
}

function plotOf({ title, along, unit, lines }: Growth): string[] {
  const points = lines.flatMap((line) => line.points);
  const [right, top] = [0, 1].map((axis) =>
    Math.max(...points.map((point) => point[axis] ?? 0)),
  ) as [number, number];
  const highest = niceAbove(top);
  const box = { x: plot.left, y: plot.top, width: plot.width, height: plot.height };
  const grid = [0, 0.25, 0.5, 0.75, 1].map((part) => highest * part);
  const colored = lines.map((line) => ({ ...line, color: colorOf(line.name) }));
  const atX = (at: number): number => box.x + (at / right) * box.width;
  const xs = [...new Set(points.map(([at]) => at))].filter(apart(right));
  const below = (words: string, x: number, look: Attributes): string =>
    text(words, { x, y: box.y + box.height, "text-anchor": "middle", ...look });
  return [
    text(`${title} (${unit})`, { x: 0, y: 16, "font-weight": "bold" }),
    ...linePlot({ box, from: 0, to: right, grid, labelOf: String, lines: colored, dot: 3 }),
    ...xs.map((at) => below(at.toLocaleString("en"), atX(at), { dy: 16, "font-size": 10 })),
    below(along, box.x + box.width / 2, { dy: 33, "font-size": 11, fill: "#5f6368" }),
  ];
}

/** Labels along the bottom that do not run into the next one, seen from the right. */
function apart(right: number): (value: number, index: number, all: number[]) => boolean {
  return (value, index, all) => all.slice(index + 1).every((next) => (next - value) / right > 0.1);
}

/** The next number above of 1, 2, 4, 8 or 10 times a power of ten: quarters of it are short to write. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return ([1, 2, 4, 8, 10].find((factor) => factor * power >= value) ?? 10) * power;
}
