import { element, text } from "./svg.ts";

interface Plot {
  readonly box: Readonly<Record<"x" | "y" | "width" | "height", number>>;
  /** The range of the bottom axis. */
  readonly from: number;
  readonly to: number;
  /** Values with a line across the plot; the last is the highest. */
  readonly grid: readonly number[];
  readonly labelOf: (value: number) => string;
  readonly lines: readonly { color: string; points: readonly (readonly [number, number])[] }[];
  /** The radius of each point's dot. */
  readonly dot: number;
}

const strokeWidth = 2;

/** Draws lines over a grid, with the grid's values beside it. */
export function linePlot({ box, from, to, grid, labelOf, lines, dot }: Plot): string[] {
  const atX = (at: number): number => box.x + ((at - from) / (to - from || 1)) * box.width;
  const atY = (value: number): number => box.y + box.height * (1 - value / (grid.at(-1) ?? 1));
  const across = grid.flatMap((value) => {
    const [y, x2] = [atY(value), box.x + box.width];
    const label = { x: box.x - 6, y: y + 4, "text-anchor": "end", "font-size": 10 };
    return [
      element("line", { x1: box.x, x2, y1: y, y2: y, stroke: "#dadce0" }),
      text(labelOf(value), label),
    ];
  });
  const drawn = lines.flatMap(({ color, points: given }) => {
    const points = given.map(([at, value]) => [atX(at), atY(value)] as const);
    // Dots that are no wider than the line show only where there is no line.
    const dots = dot > strokeWidth / 2 || points.length === 1 ? points : [];
    const path = points.map((point) => point.map((each) => each.toFixed(1)).join()).join(" ");
    return [
      element("polyline", {
        points: path,
        fill: "none",
        stroke: color,
        "stroke-width": strokeWidth,
      }),
      ...dots.map(([cx, cy]) => element("circle", { cx, cy, r: dot, fill: color })),
    ];
  });
  return [...across, ...drawn];
}
