import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { quoted } from "../guest/guest.ts";
import { repositoryRoot } from "../support/paths.ts";

/** What the workflows have of a step. */
interface Step {
  readonly name?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly with?: Readonly<Record<string, string>>;
}

/** What the workflows have of a job. */
interface Job {
  readonly container?: string | { readonly image: string; readonly volumes?: readonly string[] };
  readonly env?: Readonly<Record<string, string>>;
  readonly "timeout-minutes": number;
  readonly steps: readonly Step[];
}

const workspace = "/__w/plexus/plexus";
const containerHome = "/github/home";

/** What stands for an action: what it changes for the steps after it, or a check of what it reads. */
const actions: Readonly<Record<string, (inputs: Readonly<Record<string, string>>) => string>> = {
  "actions/checkout": () =>
    `git -c advice.detachedHead=false clone --quiet /mnt/share/plexus.bundle ${workspace}
cd ${workspace}`,
  // Any Node of at least 18 serves, as `make deps` installs the one that is pinned.
  "actions/setup-node": () => "node --version",
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

/** Whether a job runs in a container, as root, and not on the runner itself. */
export function isContained(workflow: string, name: string): boolean {
  return jobOf(workflow, name).container !== undefined;
}

/** The directories of a job that are on the runner's disk: what GitHub mounts into a container, and its volumes. */
export function diskOf(workflow: string, name: string): readonly string[] {
  const { container } = jobOf(workflow, name);
  if (container === undefined) return ["/tmp"];
  const volumes = typeof container === "string" ? [] : (container.volumes ?? []);
  return ["/__w", containerHome, ...volumes.flatMap((volume) => volume.split(":")[1] ?? [])];
}

/** After how many milliseconds GitHub ends a job. */
export function jobTimeoutMs(workflow: string, name: string): number {
  return jobOf(workflow, name)["timeout-minutes"] * 60_000;
}

/**
 * A script that does what a runner does with a job of a workflow. `value` is that of the only key of its matrix, `until`
 * the name of the first step that is left out, as its parts cannot be had.
 * @throws Error when it needs what only GitHub has
 */
export function jobScript(
  workflow: string,
  name: string,
  { value, until }: { value?: string | undefined; until?: string | undefined } = {},
): string {
  const { container, env, steps } = jobOf(workflow, name, value);
  const end = until === undefined ? steps.length : steps.findIndex((step) => step.name === until);
  if (end < 0) throw new Error(`${workflow}: job ${name} has no step with the name ${until}`);
  const all = { CI: "true", GITHUB_WORKSPACE: workspace, GITHUB_PATH: "/dev/null", ...env };
  const head = ["set -e", `cd ${workspace}`, ...assignments(all)];
  const script = [...head, ...steps.slice(0, end).map(stepScript)].join("\n");
  const isolated = container === undefined ? asRunner(script) : inContainer(script);
  return `set -e\nmkdir -p ${workspace}\n${isolated}`;
}

/** GitHub gives a container another home directory. */
function inContainer(script: string): string {
  return `cp /root/.npmrc ${containerHome}/\nexport HOME=${containerHome}\n${script}`;
}

/** As the user of GitHub's runners, who may become root without a password. This machine's proxies remain. */
function asRunner(script: string): string {
  return `useradd --create-home --shell /bin/bash runner
echo 'runner ALL=(ALL) NOPASSWD: ALL
Defaults env_keep += "*_proxy *_PROXY SSL_CERT_FILE"' >/etc/sudoers.d/runner
echo 127.0.0.1 fresh >>/etc/hosts
cp /root/.npmrc /home/runner/
chown -R runner: /home/runner ${workspace}
exec setpriv --reuid=runner --regid=runner --init-groups env HOME=/home/runner sh -c ${quoted(script)}`;
}

function jobOf(workflow: string, name: string, value?: string): Job {
  const path = join(repositoryRoot, ".github/workflows", workflow);
  const text = readFileSync(path, "utf8");
  const chosen =
    value === undefined ? text : text.replaceAll(/\$\{\{ matrix\.\w+ \}\}/g, () => value);
  const { jobs } = parse(chosen) as { jobs: Readonly<Record<string, Job>> };
  const job = jobs[name];
  if (job === undefined) throw new Error(`${workflow} has no job ${name}`);
  return job;
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
