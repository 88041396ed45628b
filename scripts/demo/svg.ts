import { element, picture, text } from "../../e2e/support/svg/svg.ts";

/** One network between the two pods of the demo. */
interface Wire {
  readonly network: string;
  /** How the node connects it. */
  readonly joint: string;
  /** Interface and address of the left pod and of the right one. */
  readonly ends: readonly [End, End];
}

interface End {
  readonly ifName: string;
  readonly address: string;
}

const colors = ["#1a73e8", "#188038", "#e37400"];
const grey = "#5f6368";
/** Of the pods' boxes, the networks between them, and a row. */
const size = { pod: 180, network: 250, gap: 75, row: 64, top: 44, margin: 16 };
const width = 2 * (size.margin + size.pod + size.gap) + size.network;

/**
 * Draws the two pods with the networks between them, which the output of `make demo` ends with. Ping times are left
 * out: they differ each time.
 * @throws Error when the output has no picture
 */
export function demoSvg(output: string): string {
  const { names, wires } = parsePicture(output);
  const height = 2 * size.margin + size.top + wires.length * size.row;
  const title = `The pods ${names.join(" and ")} with ${wires.length} networks`;
  const right = width - size.margin - size.pod;
  return picture(
    { width, height, title },
    ...wires.flatMap((wire, nth) => network(wire, nth)),
    ...[size.margin, right].flatMap((x, side) => pod(x, names[side] ?? "", wires.length)),
    ...wires.flatMap((wire, nth) =>
      wire.ends.flatMap((end, side) => interfaceOf(end, side === 0 ? size.margin : right, nth)),
    ),
  );
}

/** The rows of the picture: interfaces, then addresses, then pings of each network. */
function parsePicture(output: string): { names: string[]; wires: Wire[] } {
  const lines = output.split("\n").map((line) => line.trim());
  const top = lines.findLastIndex((line) => line.startsWith("+- pod "));
  if (top === -1)
    throw new Error("the output has no picture of two pods: is it that of make demo?");
  const names = Array.from(lines[top]?.matchAll(/- pod (\S+)/g) ?? [], ([, name = ""]) => name);
  const wires: Wire[] = [];
  for (let at = top + 1; lines[at]?.startsWith("|"); at += 3) {
    const [, left = "", joint = "", right = ""] =
      /^\| (\S+) +\|<-+\[ (.*) \]-+>\| (\S+) +\|$/.exec(lines[at] ?? "") ?? [];
    const [, leftAddress = "", name = "", rightAddress = ""] =
      /^\| (\S+) +\| +(\S+) +\| (\S+) +\|$/.exec(lines[at + 1] ?? "") ?? [];
    const ends = [
      { ifName: left, address: leftAddress },
      { ifName: right, address: rightAddress },
    ] as const;
    wires.push({ network: name, joint, ends });
  }
  return { names, wires };
}

const rowAt = (nth: number): number => size.margin + size.top + nth * size.row;

function pod(x: number, name: string, networks: number): string[] {
  const height = size.top + networks * size.row - 8;
  return [
    element("rect", {
      ...{ x, y: size.margin, width: size.pod, height, rx: 8 },
      ...{ fill: "none", stroke: grey, "stroke-width": 1.5 },
    }),
    text(`pod ${name}`, { x: x + 14, y: size.margin + 26, "font-size": 15, "font-weight": "bold" }),
  ];
}

function interfaceOf({ ifName, address }: End, x: number, nth: number): string[] {
  const y = rowAt(nth);
  return [
    element("rect", { x: x + 10, y, width: size.pod - 20, height: 46, rx: 5, fill: "#f1f3f4" }),
    element("rect", { x: x + 10, y, width: 5, height: 46, fill: colors[nth % 3] ?? grey }),
    text(ifName, { x: x + 24, y: y + 19, "font-size": 13, "font-weight": "bold" }),
    text(address, { x: x + 24, y: y + 37, "font-size": 13, fill: grey }),
  ];
}

function network({ network: name, joint }: Wire, nth: number): string[] {
  const [y, stroke] = [rowAt(nth), colors[nth % 3] ?? grey];
  const [x, middle] = [size.margin + size.pod + size.gap, width / 2];
  const ends = [size.margin + size.pod - 10, width - size.margin - size.pod + 10] as const;
  return [
    element("line", {
      x1: ends[0],
      x2: ends[1],
      y1: y + 23,
      y2: y + 23,
      stroke,
      "stroke-width": 2,
    }),
    element("rect", {
      ...{ x, y, width: size.network, height: 46, rx: 23 },
      ...{ fill: "#ffffff", stroke, "stroke-width": 2 },
    }),
    text(name, {
      ...{ x: middle, y: y + 20, "font-size": 13, "font-weight": "bold" },
      "text-anchor": "middle",
    }),
    text(joint, { x: middle, y: y + 37, fill: grey, "text-anchor": "middle" }),
  ];
}
