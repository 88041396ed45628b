import { element, text } from "../../e2e/support/svg/svg.ts";
import type { CallTrace, Results } from "../results.ts";
import { barLine, chart } from "./chart.ts";

const row = { height: 19, labels: 215, width: 640, values: 150 };
const panelTop = 30;

/** Whose time a row is. */
const owners = {
  shim: { name: "shim: start and connection, answer and exit", color: "#5f6368" },
  engine: { name: "plexusd", color: "#1a73e8" },
  order: { name: "the way to the shim and back", color: "#f29900" },
  plugin: { name: "plugin", color: "#34a853" },
};

type Owner = keyof typeof owners;

/** A time in which one of them works, in milliseconds. */
interface Span {
  readonly owner: Owner;
  readonly from: number;
  readonly to: number;
}

interface Row {
  readonly name: string;
  readonly spans: readonly Span[];
  readonly value: string;
}

/** One ADD and one DEL, from the fork of the shim to its exit: a row for each phase, in the order of their starts. */
export function callChart({ traces }: Results): string {
  const calls = Object.entries(traces).map(([command, trace]) => ({
    title: `${command}: ${trace.whole.toFixed(3)} ms`,
    whole: trace.whole,
    rows: rowsOf(trace),
  }));
  const longest = Math.max(...calls.map(({ rows }) => rows.length));
  const width = row.labels + row.width + row.values;
  return chart(
    {
      title: "One ADD and one DEL of Plexus, from the first to the last microsecond",
      subtitle: "ptp and macvlan; the calls with the median time. Milliseconds.",
      keys: Object.values(owners),
      columns: 1,
      size: { width, height: panelTop + longest * row.height + 14 },
    },
    calls.map(panelOf),
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
      return { name, spans: [{ owner, from, to }], value: took.toFixed(3) };
    }
    const margin = (took - ran) / 2;
    const plugin: Span = { owner: "plugin", from: from + margin, to: to - margin };
    const value = `${ran.toFixed(3)} + ${(took - ran).toFixed(3)}`;
    return { name: network, spans: [{ owner: "order", from, to }, plugin], value };
  });
  const answered = shimStart + (spans.find(({ name }) => name === "answer")?.at ?? 0);
  return [
    shims("start of the shim", 0, shimStart),
    ...rows,
    shims("answer, exit of the shim", answered, whole),
  ];
}

function shims(name: string, from: number, to: number): Row {
  return { name, spans: [{ owner: "shim", from, to }], value: (to - from).toFixed(3) };
}

function panelOf(call: { title: string; whole: number; rows: Row[] }): string[] {
  const { title, whole, rows } = call;
  const x = (ms: number): number => (ms / whole) * row.width;
  const bottom = panelTop + rows.length * row.height;
  const ticks = Array.from({ length: Math.floor(whole / 5) + 1 }, (_, n) => n * 5);
  return [
    text(title, { x: 0, y: 14, "font-weight": "bold" }),
    ...ticks.flatMap((ms) => {
      const at = row.labels + x(ms);
      return [
        element("line", { x1: at, x2: at, y1: panelTop - 8, y2: bottom, stroke: "#dadce0" }),
        text(String(ms), { x: at, y: bottom + 13, "text-anchor": "middle", "font-size": 10 }),
      ];
    }),
    ...rows.flatMap(({ name, spans, value }, nth) => {
      const bars = spans.map(({ owner, from, to }) => {
        return { from: x(from), to: x(to), color: owners[owner].color };
      });
      const y = panelTop + nth * row.height + 3;
      return barLine(name, bars, { value, y, labels: row.labels });
    }),
  ];
}
