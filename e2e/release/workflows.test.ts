import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { root } from "#daemon/config/testing/manifests.ts";
import { jobScript } from "../fresh/workflow.ts";
import { nodeBinary } from "../support/paths.ts";
import { releaseTool, shellcheck } from "./tools.ts";

interface Job {
  readonly permissions?: object;
  readonly "timeout-minutes"?: number;
  readonly uses?: string;
  readonly container?: string | { readonly image: string };
  readonly steps: readonly { readonly id?: string; readonly run?: string }[];
}

interface Workflow {
  readonly permissions: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const folder = join(root, ".github/workflows");
const files = await readdir(folder);

test("actionlint accepts the workflows, and ShellCheck their commands", async () => {
  const paths = files.map((name) => join(folder, name));
  const flags = ["-shellcheck", await shellcheck()];
  const actionlint = await releaseTool("actionlint");
  const { stdout, exitCode } = await execa(actionlint, [...flags, ...paths], { reject: false });
  expect([exitCode, stdout]).toEqual([0, ""]);
}, 1_200_000);

test("ShellCheck accepts the scripts of the repository", async () => {
  const search = ["grep", "--files-with-matches", "-E", "^#!.*(bash|/sh)$", "--", ":!*.ts"];
  const { stdout: scripts } = await execa("git", search, { cwd: root });
  const paths = scripts.split("\n");
  expect(paths).toContain("deploy/kubectl-plexus");
  const { stdout, exitCode } = await execa(
    await shellcheck(),
    ["--severity=warning", "--format=gcc", ...paths],
    { cwd: root, reject: false },
  );
  expect([exitCode, stdout]).toEqual([0, ""]);
}, 1_200_000);

test("the release workflow accepts only a tag and a repository that package.json has, and writes the image name in lower case", async () => {
  const { version, repository } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const { origin, pathname } = new URL(repository);
  const check = async (
    tag: string,
    server = origin,
  ): Promise<{ exitCode: number; written: string }> => {
    const { jobs } = parse(await readFile(join(folder, "release.yml"), "utf8")) as Workflow;
    const step = jobs.version?.steps.find(({ id }) => id === "version");
    const output = join(await mkdtemp(join(tmpdir(), "plexus-workflow-")), "output");
    onTestFinished(() => rm(dirname(output), { recursive: true }));
    await writeFile(output, "");
    const env = {
      ...{ GITHUB_REF_NAME: tag, GITHUB_OUTPUT: output, REGISTRY: "ghcr.io" },
      ...{ GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: pathname.slice(1) },
      PATH: `${dirname(nodeBinary())}:${process.env.PATH}`,
    };
    const shell = ["-eo", "pipefail", "-c", step?.run ?? "exit 9"];
    const { exitCode } = await execa("bash", shell, { cwd: root, env, reject: false });
    return { exitCode: exitCode ?? -1, written: await readFile(output, "utf8") };
  };
  const image = `ghcr.io${pathname.toLowerCase()}`;
  const written = `version=${version}\nimage=${image}\ncharts=${image}/charts\n`;
  expect(await check(`v${version}`)).toEqual({ exitCode: 0, written });
  expect(await check("v99.0.0")).toEqual({ exitCode: 1, written: "" });
  const elsewhere = await check(`v${version}`, "https://git.example.org");
  expect(elsewhere).toEqual({ exitCode: 1, written: "" });
});

test.each(files)(
  "%s pins every action by its commit, grants only contents: read by default, and gives its jobs a timeout",
  async (name) => {
    const text = await readFile(join(folder, name), "utf8");
    const actions = [...text.matchAll(/uses: (.*)/g)].flatMap(([, action]) => action ?? []);
    const others = actions.filter((action) => !action.startsWith("./"));
    expect(others.length).toBeGreaterThan(0);
    for (const action of others)
      expect(action).toMatch(/^[\w-]+(?:\/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
    const { permissions, jobs } = parse(text) as Workflow;
    expect(permissions).toEqual({ contents: "read" });
    for (const job of Object.values(jobs)) {
      if (job.uses === undefined) expect(job["timeout-minutes"]).toBeGreaterThan(0);
    }
  },
);

test("jobs that install packages run in the image that the Dockerfile builds in, as root", async () => {
  const dockerfile = await readFile(join(root, "Dockerfile"), "utf8");
  const debian = /^ARG BUILD_IMAGE=(\S+)$/m.exec(dockerfile)?.[1] ?? "no image";
  for (const name of files) {
    const { jobs } = parse(await readFile(join(folder, name), "utf8")) as Workflow;
    for (const [id, { container, steps = [] }] of Object.entries(jobs)) {
      const text = steps.map(({ run = "" }) => run).join("\n");
      if (!text.includes("apt-get")) continue;
      const image = typeof container === "string" ? container : container?.image;
      expect(image, `${name}: ${id}`).toBe(debian);
      expect(text).not.toContain("sudo");
    }
  }
});

test.each([
  ["ci.yml", ["lint"], "make lint"],
  ["ci.yml", ["test"], ".ci/run"],
  ["release.yml", ["artifacts"], "make release"],
  ["pages.yml", ["site"], "make docs"],
  ["clusters.yml", ["suites", "make e2e SUITE=crio"], "make e2e SUITE=crio"],
  ["nightly.yml", ["random", "make powerloss"], "make powerloss"],
  [
    "clusters.yml",
    ["kind", "kindnet", "Make a cluster without its default CNI, except with kindnet"],
    "make image",
  ],
  [
    "clusters.yml",
    ["k3s", "", "Start k3s, and show its directories of CNI where the scenarios look"],
    "make image",
  ],
])(
  "the steps of %s, job %s, can run in a root file system",
  (name, [job, value, until], command) => {
    const script = jobScript(name, job as string, { value, until });
    expect(script).toContain(command);
    expect(script).not.toContain("${{");
  },
);
