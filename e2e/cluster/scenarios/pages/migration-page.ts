import { mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { releaseTool } from "../../../release/tools.ts";
import { codeBlocks } from "../../../support/markdown.ts";
import { nodeBinary, repositoryRoot } from "../../../support/paths.ts";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { run } from "../../machine/run.ts";
import { isCrio } from "../target/target.ts";
import { type Step, stepsOf } from "./steps.ts";

/** With what Plexus is installed. */
export type Installer = "kubectl" | "helm";

const uninstallations: Record<Installer, readonly string[]> = {
  kubectl: [
    "kubectl replace --force -k deploy/uninstall",
    "kubectl -n kube-system wait --for=condition=Complete job/plexus-uninstall --timeout=290s",
    "kubectl delete -k deploy/uninstall",
    "kubectl delete -k deploy/base --ignore-not-found",
    "kubectl -n kube-system delete configmap plexus-config",
  ],
  helm: ["helm -n kube-system uninstall plexus"],
};

/** A part of the page: to Plexus, back to Multus, or the removal of Multus. */
type Part = "there" | "back" | "at-the-end";

/**
 * docs/user/migration.md, whose commands are run in a directory that looks like this repository: `follow()` runs the
 * steps of a part in one shell that stops at the first failure.
 */
export async function openMigrationPage(cluster: Cluster, installer: Installer) {
  const text = await readFile(join(repositoryRoot, "docs/user/migration.md"), "utf8");
  const steps = stepsOf(codeBlocks(text));
  const temporary = await mkdtempDisposable(join(tmpdir(), "plexus-migration-"));
  const directory = temporary.path;
  await symlink(join(repositoryRoot, "deploy"), join(directory, "deploy"));
  const plexusctl = `exec ${nodeBinary()} ${join(repositoryRoot, "dist/plexusctl.js")} "$@"`;
  const onNode = `exec ${cluster.node.host.command([]).join(" ")} "$@"`;
  for (const [name, script] of Object.entries({ plexusctl, "on-node": onNode })) {
    await writeFile(join(directory, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  const inShell = async (commands: readonly string[]): Promise<void> => {
    const helm = dirname(await releaseTool("helm"));
    const path = `export PATH=${directory}:${directory}/deploy:${helm}:$PATH`;
    const shell = ["bash", "-euxo", "pipefail", "-c", [path, ...commands].join("\n")] as const;
    await run(cluster.administratorCommand(...shell), { cwd: directory });
  };
  return {
    async follow(part: Part): Promise<void> {
      await inShell(steps.filter((step) => isStepOf(step, part, installer)).map(scriptOf));
    },
    /** Removes Plexus, as docs/user/quickstart.md and docs/operations/helm.md do. */
    async uninstall(): Promise<void> {
      await inShell(uninstallations[installer]);
    },
    [Symbol.asyncDispose]: () => temporary.remove(),
  };
}

/** Whether a step is of this part, and not for the other installer or runtime. */
function isStepOf({ info }: Step, part: Part, installer: Installer): boolean {
  const words = info.split(" ");
  if (words.includes("always")) return true;
  const of = words.find((word) => word === "back" || word === "at-the-end") ?? "there";
  const isForAll = !words.includes("kubectl") && !words.includes("helm");
  const isForRuntime = isCrio || !words.includes("crio");
  return of === part && isForRuntime && (isForAll || words.includes(installer));
}

/** Steps marked `on-node` are run there. */
function scriptOf({ info, text }: Step): string {
  if (!info.split(" ").includes("on-node")) return text;
  return `on-node sh -eux <<'END_OF_STEP'\n${text}END_OF_STEP`;
}
