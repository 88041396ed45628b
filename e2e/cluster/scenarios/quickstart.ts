// SPDX-License-Identifier: Apache-2.0

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type CodeBlock, codeBlocks } from "../../support/markdown.ts";
import { repositoryRoot } from "../../support/paths.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { run } from "../machine/run.ts";
import { podImage } from "./target/images.ts";
import type { Scene } from "./target/scene.ts";
import { ownCluster, skipGiven } from "./target/target.ts";

/** The commands of one block of the page, and the lines that the page says they print. */
interface Step {
  readonly commands: string;
  readonly shown: readonly string[];
}

/** Commands of sections 1 and 2 that the test replaces by its own cluster and image. */
const preparations = ["node e2e/cluster/main.ts prepare", "make image"];

/**
 * Runs docs/user/quickstart.md as a user would: in one shell, with a kubectl that finds plugins in the PATH. It runs
 * last, because the page ends with the uninstallation.
 */
export function quickstartScenarios(scene: () => Scene): void {
  describe("docs/user/quickstart.md", () => {
    test("installs, attaches, explains and uninstalls, with the output that the page shows", async (context) => {
      skipGiven(context);
      const page = await readFile(join(repositoryRoot, "docs/user/quickstart.md"), "utf8");
      const blocks = codeBlocks(page.replaceAll("busybox:1.37", podImage));
      expect(left(blocks)).toEqual(preparations.map((line) => expect.stringMatching(line)));
      const steps = stepsOf(blocks);
      const outputs = await follow(steps, ownCluster(scene()));
      steps.forEach(({ commands, shown }, n) => {
        for (const line of shown) expect(outputs[n], commands).toMatch(pattern(line));
      });
    });
  });
}

/** The first lines of the shell blocks that are not run, to detect a block that lost its `run` mark. */
function left(blocks: readonly CodeBlock[]): (string | undefined)[] {
  return blocks.filter(({ info }) => info === "sh").map(({ text }) => text.split("\n")[0]);
}

/** A block with `sh run` is a step; `text output` is what the step before it prints. */
function stepsOf(blocks: readonly CodeBlock[]): Step[] {
  const steps: { commands: string; shown: string[] }[] = [];
  for (const { info, text } of blocks) {
    if (info === "sh run") steps.push({ commands: text, shown: [] });
    if (info === "text output") steps.at(-1)?.shown.push(...text.trimEnd().split("\n"));
  }
  return steps;
}

/** Runs all steps in one shell that stops at the first failure, and returns what each printed. */
async function follow(steps: readonly Step[], cluster: Cluster): Promise<string[]> {
  const end = "-- end of the step --";
  const script = steps.map(({ commands }) => `${commands}\necho; echo '${end}'`).join("\n");
  const shell = cluster.administratorCommand("bash", "-euxo", "pipefail", "-c", script);
  return (await run(shell, { cwd: repositoryRoot })).split(end);
}

/** A line of the page: `…` is anything, and the columns of a table may be wider. */
function pattern(line: string): RegExp {
  const words = line.trim().replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return new RegExp(`^${words.replaceAll(/ +/g, " +").replaceAll("…", ".*")}$`, "m");
}
