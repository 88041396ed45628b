import { markdownTable } from "../../e2e/support/markdown.ts";
import { element, text, tooltip } from "../../e2e/support/svg/svg.ts";
import type { Frame } from "../results.ts";
import { chart } from "./chart.ts";

const width = 1180;
const row = 17;
/** Narrower frames are left out, in pixels. */
const narrowest = 1;

/** Whose code a function is, by the path of its module; the first that matches. */
const owners = [
  { name: "engine and CNI", color: "#8ab4f8", module: /^src\/(engine|cni|npwg|netlink)\// },
  { name: "calls of the shim", color: "#aecbfa", module: /^src\/(protocol|serving)\// },
  { name: "records", color: "#fdd663", module: /^src\/records\// },
  { name: "API client, status and events", color: "#81c995", module: /^src\/kube\// },
  { name: "other code of Plexus", color: "#c58af9", module: /^src\// },
  { name: "libraries", color: "#fcad70", module: /node_modules/ },
  { name: "modules of Node or Bun", color: "#dadce0", module: /^(node|bun|internal):/ },
  { name: "JavaScript engine and system calls", color: "#f28b82", module: /^/ },
] as const;

/** Where a process spends its time, as a flame graph: callers below, what they call above. */
export function flameChart(profile: Frame, of: string): string {
  const height = depthOf(profile, profile.ms) * row;
  const title = `${of}: ${profile.ms.toFixed(2)} ms for an ADD and a DEL`;
  const drawn = bars(profile, { x: 0, y: height - row, scale: width / profile.ms });
  const subtitle = "Callers are below, and what they call is above.";
  return chart({ title, subtitle, keys: owners, columns: 1, size: { width, height } }, [drawn]);
}

/** A process's time by whose code it is in, without what that calls. */
export function ownerTable(profile: Frame | undefined): string {
  if (profile === undefined) return "";
  const sums = new Map<string, number>(owners.map(({ name }) => [name, 0]));
  addOwn(profile, sums);
  const rows = [...sums, ["all", profile.ms] as const];
  return markdownTable(
    ["code", "ms"],
    rows.map(([name, ms]) => [name, ms.toFixed(2)]),
  );
}

function addOwn({ module, ms, children }: Frame, sums: Map<string, number>): void {
  const { name } = ownerOf(module);
  const below = children.reduce((sum, child) => sum + child.ms, 0);
  sums.set(name, (sums.get(name) ?? 0) + ms - below);
  for (const child of children) addOwn(child, sums);
}

function ownerOf(module: string): (typeof owners)[number] {
  return owners.find((owner) => owner.module.test(module)) ?? owners[7];
}

function isShown({ ms }: Frame, whole: number): boolean {
  return (ms / whole) * width >= narrowest;
}

function depthOf({ children }: Frame, whole: number): number {
  const shown = children.filter((child) => isShown(child, whole));
  return 1 + Math.max(0, ...shown.map((child) => depthOf(child, whole)));
}

function bars(frame: Frame, at: { x: number; y: number; scale: number }): string[] {
  const { name, module, ms, children } = frame;
  const long = ms * at.scale;
  if (long < narrowest) return [];
  const letters = Math.floor((long - 6) / 6);
  const label = name || "(anonymous)";
  const fill = ownerOf(module).color;
  const size = { width: long - 0.4, height: row - 1 };
  const box = element(
    "rect",
    { x: at.x, y: at.y, ...size, fill },
    tooltip(`${label} ${module} ${ms.toFixed(3)} ms`),
  );
  const shown = label.length <= letters ? label : `${label.slice(0, letters - 1)}…`;
  const written = letters < 3 ? [] : [text(shown, { x: at.x + 3, y: at.y + 12, "font-size": 10 })];
  let x = at.x;
  const above = children
    .toSorted((a, b) => b.ms - a.ms)
    .flatMap((child) => {
      const drawn = bars(child, { x, y: at.y - row, scale: at.scale });
      x += child.ms * at.scale;
      return drawn;
    });
  return [box, ...written, ...above];
}
