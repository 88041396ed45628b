import { copyFile, mkdir, mkdtemp, readdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { cacheRoot } from "../cluster/machine/cache.ts";
import { Reaper } from "../cluster/machine/reaper.ts";
import { run } from "../cluster/machine/run.ts";
import { repositoryRoot } from "../support/paths.ts";
import { type Contents, type Release, releases, rootFileSystem, type System } from "./root-fs.ts";
import { environment, writeSettings } from "./settings.ts";
import { diskOf, isContained, jobScript, jobTimeoutMs } from "./workflow.ts";

/**
 * Runs the README's commands on a fresh Debian: clones the commit that is checked out to /root/plexus of a minimal
 * root file system, in namespaces, and runs make there. `--suite trixie` is for this release alone, `--run demo` for
 * other targets. The network is this machine's, as packages come from there.
 *
 * `--workflow ci.yml --job lint` instead runs the steps of a workflow's job, in a root file system that has only what
 * the image of its container has; a job without one on Ubuntu 24.04 as the user `runner`. `--matrix "make powerloss"`
 * with this value of its matrix, `--until "Start k3s"` the steps before the one of this name.
 */
const {
  suite,
  run: chosen,
  workflow,
  job,
  matrix,
  until,
} = parseArgs({
  options: {
    suite: { type: "string" },
    run: { type: "string" },
    workflow: { type: "string" },
    job: { type: "string" },
    matrix: { type: "string" },
    until: { type: "string" },
  },
}).values;

/** The tests take minutes, so they run on the newest release only. */
const defaultTargets: Readonly<Record<Release, string>> = {
  bookworm: "demo image chart",
  trixie: "demo test image chart",
};

const command = (targets: string): string => `set -eu
git -c advice.detachedHead=false -c init.defaultBranch=main clone --quiet /mnt/share/plexus.bundle plexus
cd plexus
for target in ${targets}; do make "$target"; done
`;

/** Ends what hangs, except in a job. A busy machine stays below this limit, and vitest ends each test that hangs. */
const targetsMs = 3_600_000;

/** A script, and when to end it. */
interface Work {
  readonly script: string;
  readonly timeoutMs: number;
  /** Directories that are on the machine's disk. */
  readonly disk: readonly string[];
}

/** Runs a script on a system, with a bundle of the commit beside it, and returns whether it succeeded. */
async function runOn(release: System, has: Contents, work: Work): Promise<boolean> {
  const system = await rootFileSystem(release, has);
  const scratch = await mkdtemp(join(cacheRoot(), "fresh-run-"));
  // The name of control groups that no fresh system makes.
  const reaper = new Reaper({ directory: scratch, cgroup: basename(scratch) });
  const share = join(scratch, "share");
  await mkdir(join(share, "reports"), { recursive: true });
  await run(["git", "bundle", "create", "--quiet", join(share, "plexus.bundle"), "HEAD"], {
    cwd: repositoryRoot,
  });
  await writeSettings(share);
  await writeFile(join(share, "command"), work.script);
  const succeeded = await enter(system, scratch, work);
  await collectReports(join(share, "reports"), release);
  await reaper.reap();
  return succeeded;
}

async function enter(
  system: string,
  scratch: string,
  { timeoutMs: timeout, disk }: Work,
): Promise<boolean> {
  const namespaces = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
  const script = join(import.meta.dirname, "enter.sh");
  const isolated = ["unshare", ...namespaces, "--propagation=private", "sh", script];
  // setpriv: the system ends with this process, however that one ends.
  const { exitCode } = await execa(
    "setpriv",
    ["--pdeathsig=KILL", "--", ...isolated, system, scratch, ...disk],
    {
      reject: false,
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
      timeout,
      extendEnv: false,
      env: environment(),
    },
  );
  return exitCode === 0;
}

/** Keeps vitest's reports, which are named after process IDs of the fresh system, apart from the machine's. */
async function collectReports(directory: string, release: System): Promise<void> {
  const target = process.env.PLEXUS_TEST_REPORTS;
  if (target === undefined) return;
  for (const name of await readdir(directory))
    await copyFile(join(directory, name), join(target, `fresh-${release}-${name}`));
}

const isRelease = (name: string): name is Release => Object.hasOwn(releases, name);
const names = suite === undefined ? Object.keys(releases) : [suite];
if ((await run(["git", "status", "--porcelain"], { cwd: repositoryRoot })) !== "")
  process.stdout.write("fresh: uncommitted changes are left out\n");
if (workflow !== undefined && job !== undefined) await runJob(workflow, job);
else for (const name of names) await runTargets(name);

async function runJob(file: string, name: string): Promise<void> {
  const end = until && `, until "${until}"`;
  const title = `fresh: job ${[name, matrix].filter(Boolean).join(" ")} of ${file}${end ?? ""}`;
  const script = jobScript(file, name, { value: matrix, until });
  const work = { script, timeoutMs: jobTimeoutMs(file, name), disk: diskOf(file, name) };
  await report(title, () =>
    isContained(file, name) ? runOn("trixie", "bare", work) : runOn("noble", "runner", work),
  );
}

async function runTargets(name: string): Promise<void> {
  if (!isRelease(name)) {
    process.stderr.write(`fresh: DEBIAN=${name}: choose ${Object.keys(releases).join(" or ")}\n`);
    process.exit(2);
  }
  const targets = chosen ?? defaultTargets[name];
  const run = () =>
    runOn(name, "fresh", { script: command(targets), timeoutMs: targetsMs, disk: [] });
  await report(`fresh ${releases[name]}: make ${targets}`, run);
}

async function report(title: string, run: () => Promise<boolean>): Promise<void> {
  const started = performance.now();
  process.stdout.write(`== ${title}\n`);
  const succeeded = await run();
  const seconds = Math.round((performance.now() - started) / 1000);
  process.stdout.write(`== ${title}: ${succeeded ? "ok" : "FAILED"} (${seconds} s)\n`);
  if (!succeeded) process.exitCode = 1;
}
