import { existsSync } from "node:fs";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { codeBlocks } from "../../../support/markdown.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { type Command, run } from "../../machine/run.ts";
import { skipGiven } from "../target/target.ts";
import { expectShown, notRun, type Step, stepsOf } from "./steps.ts";

/**
 * Follows docs/user/quickstart.md as a new user does: from the first block to the last, in one shell, in a clean clone
 * of the commit that is checked out, with the machine's own Node.
 */
test("docs/user/quickstart.md starts a cluster, installs, attaches, explains and uninstalls, with the output that the page shows", async (context) => {
  skipGiven(context);
  await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-quickstart-"));
  const clone = join(directory.path, "plexus");
  await run(["git", "clone", "--quiet", repositoryRoot, clone]);
  const blocks = codeBlocks(await readFile(join(clone, "docs/user/quickstart.md"), "utf8"));
  // `make cluster` builds the image too, kind and a registry cannot be had everywhere, and one block is for a shell on a
  // node.
  const unused = ["make kind", "make image", "docker build", "cd /opt/cni/bin"];
  const others = unused.map((command) => expect.stringMatching(command));
  expect(notRun(blocks, "sh")).toEqual(others);
  const steps = stepsOf(blocks);
  try {
    const outputs = await follow(steps, clone);
    steps.forEach((step, n) => {
      expectShown(step, outputs[n]);
    });
    expect(existsSync(join(clone, ".cluster/state.json"))).toBe(false);
  } finally {
    if (existsSync(join(clone, ".cluster/state.json")))
      await run(asUser("make", "cluster", "DOWN=1"), { cwd: clone });
  }
});

/** Runs all steps in one shell that stops at the first failure, and returns what each printed. */
async function follow(steps: readonly Step[], cwd: string): Promise<string[]> {
  const end = "-- end of the step --";
  const script = steps.map(({ text }) => `${text}\necho; echo '${end}'`).join("\n");
  return (await run(asUser("bash", "-euxo", "pipefail", "-c", script), { cwd })).split(end);
}

/** Without the pinned Node in the PATH, and without what `make e2e` gives to the makes that it starts. */
function asUser(...command: Command): Command {
  const path = (process.env.PATH ?? "").split(":").filter((dir) => !dir.includes("node_modules"));
  const unset = ["MAKEFLAGS", "MAKELEVEL", "MFLAGS", "NODE_ENV"].map((name) => `--unset=${name}`);
  return ["env", ...unset, `PATH=${path.join(":")}`, ...command];
}
