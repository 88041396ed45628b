import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import type { Frame } from "../results.ts";

/** Calls that take less than this part of the whole count as their caller's. */
const smallest = 0.001;

/** A node of the call tree. */
interface ProfileNode {
  readonly id: number;
  readonly callFrame: { functionName: string; url: string; lineNumber: number };
  readonly children?: readonly number[];
}

/** A profile as V8 and Bun write it; times in microseconds. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** What a call tree is made from. */
export interface ProfiledRun {
  readonly name: string;
  /** The tree's times are divided by these. */
  readonly pods: number;
  /** How much of the profile's end counts, in microseconds. @default all */
  readonly lastUs?: number;
  /** The most that a sample stands for, where nothing is sampled while nothing runs. @default no limit */
  readonly longestUs?: number;
}

/** The call tree of a profile, in milliseconds for one pod; without the time in which nothing runs. */
export function callTree(profile: CpuProfile, run: ProfiledRun): Frame {
  const own = ownTimes(profile, run);
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const moduleAt = moduleFinder();
  const frameOf = ({ id, callFrame, children = [] }: ProfileNode): Frame => {
    const below = children
      .map((child) => frameOf(byId.get(child) as ProfileNode))
      .filter(({ ms, name }) => ms > 0 && name !== "(idle)");
    const ms = below.reduce((sum, each) => sum + each.ms, (own.get(id) ?? 0) / run.pods / 1000);
    return { name: callFrame.functionName, module: moduleAt(callFrame), ms, children: below };
  };
  return { ...frameOf(profile.nodes[0] as ProfileNode), name: run.name };
}

/** The sum of call trees with the same root. */
export function mergedTree(trees: readonly [Frame, ...Frame[]]): Frame {
  const groups = Map.groupBy(
    trees.flatMap(({ children }) => children),
    ({ name, module }) => `${name} ${module}`,
  );
  const children = [...groups.values()].map((same) => mergedTree(same as [Frame, ...Frame[]]));
  return { ...trees[0], ms: trees.reduce((sum, { ms }) => sum + ms, 0), children };
}

/** A tree without calls that are too small to be drawn. */
export function withoutSmall(frame: Frame, leastMs = frame.ms * smallest): Frame {
  const children = frame.children
    .filter(({ ms }) => ms >= leastMs)
    .map((child) => withoutSmall(child, leastMs));
  return { ...frame, ms: Number(frame.ms.toFixed(4)), children };
}

/** Each node's time without what it calls, in microseconds. */
function ownTimes(
  { samples, timeDeltas }: CpuProfile,
  { lastUs = Infinity, longestUs = Infinity }: ProfiledRun,
): Map<number, number> {
  const own = new Map<number, number>();
  let left = lastUs;
  for (let at = samples.length - 1; at >= 0 && left > 0; at--) {
    const [id = 0, took = 0] = [samples[at], timeDeltas[at]];
    own.set(id, (own.get(id) ?? 0) + Math.min(took, longestUs));
    left -= took;
  }
  return own;
}

/** Says which module a function of a bundle is from: esbuild writes its path as a comment before it. */
function moduleFinder(): (frame: ProfileNode["callFrame"]) => string {
  const files = new Map<string, string[]>();
  const linesOf = (url: string): string[] => {
    // Bun writes paths relative to the directory in which it compiled.
    const path = url.startsWith("file:") ? fileURLToPath(url) : resolve(repositoryRoot, url);
    return url !== "" && existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  };
  return ({ url, lineNumber }) => {
    const lines = files.get(url) ?? linesOf(url);
    files.set(url, lines);
    const start = lines.findLastIndex((line, at) => at <= lineNumber && line.startsWith("// "));
    return lines[start]?.slice("// ".length).replace(/^loaded-when-used:/, "") ?? url;
  };
}
