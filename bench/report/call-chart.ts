import type { CallTrace, Results } from "../results.ts";
import { element, picture, text } from "./svg.ts";

const row = { height: 19, labels: 215, width: 640, values: 150 };
const header = 96;
const panelTop = 30;

/** Whose time a row is. */
const owners = {
  shim: { label: "shim: start and connection, answer and exit", color: "#5f6368" },
  engine: { label: "plexusd", color: "#1a73e8" },
  order: { label: "the way to the shim and back", color: "#f29900" },
  plugin: { label: "plugin", color: "#34a853" },
};

type Owner = keyof typeof owners;

interface Bar {
  readonly owner: Owner;
  readonly from: number;
  readonly to: number;
}

interface Row {
  readonly name: string;
  readonly bars: readonly Bar[];
  readonly value: string;
}

/** One ADD and one DEL, from the fork of the shim to its exit: a row for each phase, in the order of their starts. */
export function callChart({ traces }: Results): string {
  const panels = Object.entries(traces).map(([command, trace]) => ({
    command,
    trace,
    rows: rowsOf(trace),
  }));
  const heights = panels.map(({ rows }) => panelTop + rows.length * row.height + 34);
  const width = 20 + row.labels + row.width + row.values;
  const height = header + heights.reduce((sum, each) => sum + each, 0);
  const title = "One ADD and one DEL of Plexus, from the first to the last microsecond";
  return picture(
    { width, height, title },
    text(title, { x: 20, y: 28, "font-size": 18, "font-weight": "bold" }),
    text("ptp and macvlan; the calls with the median time. Milliseconds.", {
      x: 20,
      y: 48,
      fill: "#5f6368",
    }),
    ...legend(),
    ...panels.map(({ command, trace, rows }, nth) => {
      const y = header + heights.slice(0, nth).reduce((sum, each) => sum + each, 0);
      const drawn = panelOf(`${command}: ${trace.whole.toFixed(3)} ms`, { rows, trace });
      return element("g", { transform: `translate(20 ${y})` }, ...drawn);
    }),
  );
}

/** An order and its plugin share a row. Where in the order the plugin ran is not known: it is drawn in the middle. */
function rowsOf({ shimStart, spans, whole }: CallTrace): Row[] {
  const phases = spans
    .filter(({ name }) => !/^(delegate|answer)/.test(name))
    .toSorted((a, b) => a.at - b.at);
  const rows = phases.map(({ name, at, took }): Row => {
    const [from, to] = [shimStart + at, shimStart + at + took];
    const [what = "", network = ""] = name.split(/ (.*)/);
    const ran = spans.find((each) => each.name === `delegate ${network}`)?.took;
    if (what !== "order" || ran === undefined) {
      const owner = name === "connect" ? "shim" : "engine";
      return { name, bars: [{ owner, from, to }], value: took.toFixed(3) };
    }
    const margin = (took - ran) / 2;
    const plugin: Bar = { owner: "plugin", from: from + margin, to: to - margin };
    const value = `${ran.toFixed(3)} + ${(took - ran).toFixed(3)}`;
    return { name: network, bars: [{ owner: "order", from, to }, plugin], value };
  });
  const answered = shimStart + (spans.find(({ name }) => name === "answer")?.at ?? 0);
  return [
    shims("start of the shim", 0, shimStart),
    ...rows,
    shims("answer, exit of the shim", answered, whole),
  ];
}

function shims(name: string, from: number, to: number): Row {
  return { name, bars: [{ owner: "shim", from, to }], value: (to - from).toFixed(3) };
}

function legend(): string[] {
  return Object.values(owners).flatMap(({ label, color }, nth) => {
    const x = 20 + ([0, 300, 385, 590][nth] ?? 0);
    return [
      element("rect", { x, y: 62, width: 14, height: 10, fill: color }),
      text(label, { x: x + 19, y: 71 }),
    ];
  });
}

function panelOf(title: string, { rows, trace }: { rows: Row[]; trace: CallTrace }): string[] {
  const x = (ms: number): number => row.labels + (ms / trace.whole) * row.width;
  const bottom = panelTop + rows.length * row.height;
  const ticks = Array.from({ length: Math.floor(trace.whole / 5) + 1 }, (_, n) => n * 5);
  return [
    text(title, { x: 0, y: 14, "font-weight": "bold" }),
    ...ticks.flatMap((ms) => [
      element("line", { x1: x(ms), x2: x(ms), y1: panelTop - 8, y2: bottom, stroke: "#dadce0" }),
      text(String(ms), { x: x(ms), y: bottom + 13, "text-anchor": "middle", "font-size": 10 }),
    ]),
    ...rows.flatMap(({ name, bars, value }, nth) => {
      const y = panelTop + nth * row.height;
      const end = x(Math.max(...bars.map(({ to }) => to)));
      return [
        text(name, { x: row.labels - 8, y: y + 12, "text-anchor": "end", "font-size": 11 }),
        ...bars.map(({ owner, from, to }) => {
          const width = Math.max(1, x(to) - x(from));
          const fill = owners[owner].color;
          return element("rect", { x: x(from), y: y + 2, width, height: 13, fill });
        }),
        text(value, { x: end + 5, y: y + 12, "font-size": 10 }),
      ];
    }),
  ];
}
