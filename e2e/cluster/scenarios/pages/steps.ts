import { expect } from "vitest";
import type { CodeBlock } from "../../../support/markdown.ts";

/** A block of a page that is run, and the lines that the page says it prints. */
export interface Step {
  /** What follows the block's fence: `sh run`. */
  readonly info: string;
  readonly text: string;
  readonly shown: readonly string[];
}

/** The blocks marked `run`, in order. A block `text output` is what the step before it prints. */
export function stepsOf(blocks: readonly CodeBlock[]): Step[] {
  const steps: { info: string; text: string; shown: string[] }[] = [];
  for (const { info, text } of blocks) {
    if (/ run\b/.test(info)) steps.push({ info, text, shown: [] });
    if (info === "text output") steps.at(-1)?.shown.push(...text.trimEnd().split("\n"));
  }
  return steps;
}

/** Whether a step needs links that only the kernel of `make e2e SUITE=sriov` has. */
export function isForGuest({ info }: Step): boolean {
  return info.endsWith(" in the guest");
}

/** The bridges that definitions name, which the bridge plugin leaves on the node. */
export function bridgesOf(yaml: string): Set<string> {
  return new Set(Array.from(yaml.matchAll(/"bridge": "([^"]+)"/g), ([, name = ""]) => name));
}

/** The first lines of the other blocks of a language, to detect a block that lost its `run` mark. */
export function notRun(blocks: readonly CodeBlock[], language: string): (string | undefined)[] {
  return blocks.filter(({ info }) => info === language).map(({ text }) => text.split("\n")[0]);
}

/** Compares what a step printed with the page. */
export function expectShown({ text, shown }: Step, output: string | undefined): void {
  for (const line of shown) expect(output, text).toMatch(pattern(line));
}

/** A line of the page: `…` is anything, and the columns of a table may be wider. */
function pattern(line: string): RegExp {
  const words = line.trim().replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return new RegExp(`^\\s*${words.replaceAll(/ +/g, "\\s+").replaceAll("…", ".*")}\\s*$`, "m");
}
