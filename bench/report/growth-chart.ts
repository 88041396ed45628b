import type { Growth, Results } from "../results.ts";
import { colorOf } from "./colors.ts";
import { element, picture, text } from "./svg.ts";

const columns = 3;
const plot = { width: 260, height: 150, left: 48, top: 34, bottom: 46 };
const cell = {
  width: plot.left + plot.width + 32,
  height: plot.top + plot.height + plot.bottom + 14,
};
const header = 72;

/** One plot for each kind of growth, both axes linear and from zero: what grows linearly is a straight line. */
export function growthChart({ growth }: Results): string {
  const names = [...new Set(growth.flatMap(({ lines }) => lines.map(({ name }) => name)))];
  const title = "How it grows";
  const plots = growth.map((each, nth) => {
    const [x, y] = [
      20 + (nth % columns) * cell.width,
      header + Math.floor(nth / columns) * cell.height,
    ];
    return element("g", { transform: `translate(${x} ${y})` }, ...plotOf(each));
  });
  return picture(
    {
      width: 20 + columns * cell.width,
      height: header + Math.ceil(growth.length / columns) * cell.height,
      title,
    },
    text(title, { x: 20, y: 28, "font-size": 18, "font-weight": "bold" }),
    ...names.flatMap((name, nth) => [
      element("rect", { x: 20 + nth * 150, y: 42, width: 14, height: 10, fill: colorOf(name) }),
      text(name, { x: 39 + nth * 150, y: 51 }),
    ]),
    ...plots,
  );
}

function plotOf({ title, along, unit, lines }: Growth): string[] {
  const points = lines.flatMap((line) => line.points);
  const [right, top] = [0, 1].map((axis) =>
    Math.max(...points.map((point) => point[axis] ?? 0)),
  ) as [number, number];
  const highest = niceAbove(top);
  const x = (value: number): number => plot.left + (value / right) * plot.width;
  const y = (value: number): number => plot.top + plot.height - (value / highest) * plot.height;
  const xs = [...new Set(points.map(([at]) => at))].filter(apart(right));
  return [
    text(`${title} (${unit})`, { x: 0, y: 16, "font-weight": "bold" }),
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((part) => gridLine(y(highest * part), highest * part)),
    ...xs.map((at) =>
      text(at.toLocaleString("en"), {
        x: x(at),
        y: plot.top + plot.height + 16,
        "text-anchor": "middle",
        "font-size": 10,
      }),
    ),
    text(along, {
      x: plot.left + plot.width / 2,
      y: plot.top + plot.height + 33,
      "text-anchor": "middle",
      "font-size": 11,
      fill: "#5f6368",
    }),
    ...lines.flatMap(({ name, points: own }) => [
      element("polyline", {
        points: own.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
        fill: "none",
        stroke: colorOf(name),
        "stroke-width": 2,
      }),
      ...own.map(([at, value]) =>
        element("circle", { cx: x(at), cy: y(value), r: 3, fill: colorOf(name) }),
      ),
    ]),
  ];
}

function gridLine(y: number, value: number): string[] {
  const x2 = plot.left + plot.width;
  return [
    element("line", { x1: plot.left, x2, y1: y, y2: y, stroke: "#dadce0" }),
    text(String(value), { x: plot.left - 6, y: y + 4, "text-anchor": "end", "font-size": 10 }),
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
