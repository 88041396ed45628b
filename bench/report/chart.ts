import { element, picture, text } from "../../e2e/support/svg/svg.ts";

const margin = 20;
const top = 58;

/** A chart. */
interface Chart {
  readonly title: string;
  readonly subtitle: string;
  /** What the colours stand for. */
  readonly keys: readonly { readonly name: string; readonly color: string }[];
  /** Panels beside each other. */
  readonly columns: number;
  /** Of each panel. */
  readonly size: { readonly width: number; readonly height: number };
}

/** Draws panels in columns below the title and what the colours stand for. */
export function chart(of: Chart, panels: readonly (readonly string[])[]): string {
  const { title, subtitle, keys, columns, size } = of;
  const [width, height] = [size.width + margin, size.height + margin];
  let [x, y] = [margin, top];
  const legend = keys.flatMap(({ name, color }) => {
    // As wide as letters are on average.
    const keyWidth = 39 + name.length * 6.5;
    if (x + keyWidth > margin + columns * width) [x, y] = [margin, y + 18];
    x += keyWidth;
    const at = x - keyWidth;
    const box = element("rect", { x: at, y, width: 14, height: 10, fill: color });
    return [box, text(name, { x: at + 19, y: y + 9 })];
  });
  const drawn = panels.map((panel, nth) => {
    const at = [margin + (nth % columns) * width, y + 24 + Math.floor(nth / columns) * height];
    return element("g", { transform: `translate(${at.join(" ")})` }, ...panel.map((c) => `\n${c}`));
  });
  const rows = Math.ceil(panels.length / columns);
  return picture(
    { width: margin + columns * width, height: y + 24 + rows * height, title },
    text(title, { x: margin, y: 28, "font-size": 18, "font-weight": "bold" }),
    text(subtitle, { x: margin, y: 47, fill: "#5f6368" }),
    ...legend,
    ...drawn,
  );
}

/** Bars on one line, between their name and a value; `labels` is the place of the zero. */
export function barLine(
  name: string,
  bars: readonly { readonly from: number; readonly to: number; readonly color: string }[],
  { value, y, labels }: { value: string; y: number; labels: number },
): string[] {
  const end = labels + Math.max(...bars.map(({ to }) => to));
  return [
    text(name, { x: labels - 8, y: y + 10, "text-anchor": "end", "font-size": 11 }),
    ...bars.map(({ from, to, color }) => {
      const width = Math.max(1, to - from);
      return element("rect", { x: labels + from, y, width, height: 11, fill: color });
    }),
    text(value, { x: end + 5, y: y + 10, "font-size": 10 }),
  ];
}
