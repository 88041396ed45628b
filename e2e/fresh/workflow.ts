import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { quoted } from "../guest/guest.ts";
import { repositoryRoot } from "../support/paths.ts";

/** What the workflows have of a step. */
interface Step {
  readonly run?: string;
  readonly uses?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly with?: Readonly<Record<string, string>>;
}

/** What the workflows have of a job. */
interface Job {
  readonly container?: string | { readonly image: string };
  readonly env?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

const workspace = "/__w/plexus/plexus";

/** What stands for an action: what it changes for the steps after it, or a check of what it reads. */
const actions: Readonly<Record<string, (inputs: Readonly<Record<string, string>>) => string>> = {
  "actions/checkout": () =>
    `git -c advice.detachedHead=false clone --quiet /run/share/plexus.bundle ${workspace}
cd ${workspace}`,
  "actions/upload-artifact": ({ path = "" }) => `test -e ${quoted(path)}`,
  "actions/configure-pages": () => "",
  "actions/upload-pages-artifact": ({ path = "" }) => `test -e ${quoted(path)}/index.html`,
  "actions/deploy-pages": () => "",
};

/** Values of a workflow's expressions, which GitHub computes. */
const expressions: readonly (readonly [RegExp, string])[] = [
  [/^steps\.pages\.outputs\.base_path$/, ""],
  [/^needs\.version\.outputs\.version$/, "0.1.0"],
  [/^needs\.version\.outputs\.image$/, "ghcr.io/example/plexus"],
  [/^needs\.image\.outputs\.\w+$/, `sha256:${"0".repeat(64)}`],
];

function evaluated(text: string): string {
  return text.replaceAll(/\$\{\{ (.*?) \}\}/g, (whole, expression: string) => {
    const found = expressions.find(([pattern]) => pattern.test(expression));
    if (found === undefined) throw new Error(`cannot evaluate ${whole}`);
    return found[1];
  });
}

/**
 * A script that does what a runner does with a job of a workflow. `value` is that of the only key of its matrix.
 * @throws Error when it needs what only GitHub has
 */
export function jobScript(workflow: string, name: string, value?: string): string {
  const path = join(repositoryRoot, ".github/workflows", workflow);
  const text = readFileSync(path, "utf8");
  const chosen =
    value === undefined ? text : text.replaceAll(/\$\{\{ matrix\.\w+ \}\}/g, () => value);
  const { jobs } = parse(chosen) as { jobs: Readonly<Record<string, Job>> };
  const job = jobs[name];
  if (job?.container === undefined)
    throw new Error(`${workflow} has no job ${name} in a container`);
  const env = { CI: "true", GITHUB_WORKSPACE: workspace, ...job.env };
  const head = [`set -e`, `mkdir -p ${workspace}`, `cd ${workspace}`, ...assignments(env)];
  return [...head, ...job.steps.map(stepScript)].join("\n");
}

function stepScript({ run, uses, env = {}, with: inputs = {} }: Step): string {
  if (run !== undefined) {
    const shell = `bash -e -c ${quoted(evaluated(run))}`;
    return `( ${[...assignments(env), shell].join("\n")}\n)`;
  }
  const action = actions[uses?.split("@")[0] ?? ""];
  if (action === undefined) throw new Error(`nothing stands for the action ${uses}`);
  return action(inputs);
}

function assignments(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).map(([key, value]) => `export ${key}=${quoted(evaluated(value))}`);
}
