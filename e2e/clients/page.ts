import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { notRun, type Step, stepsOf } from "../cluster/scenarios/pages/steps.ts";
import { codeBlocks } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";

/** The commands of docs/user/without-kubernetes.md; each client needs `install`. */
export async function pageSteps(): Promise<{
  readonly install: readonly Step[];
  readonly all: readonly Step[];
  readonly notRun: readonly (string | undefined)[];
}> {
  const page = await readFile(join(repositoryRoot, "docs/user/without-kubernetes.md"), "utf8");
  const common = page.slice(0, page.indexOf("\n## nerdctl\n"));
  const blocks = codeBlocks(page);
  return {
    install: stepsOf(codeBlocks(common)),
    all: stepsOf(blocks),
    notRun: notRun(blocks, "sh"),
  };
}
