import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { nodeBinary, repositoryRoot } from "../../e2e/support/paths.ts";
import { waitUntil } from "../../e2e/support/wait.ts";
import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import { type Place, startDaemon } from "../place.ts";
import type { Frame } from "../results.ts";
import { type CpuProfile, callTree, mergedTree, withoutSmall } from "./call-tree.ts";
import type { Job } from "./runner.ts";

/** Pods that are attached and detached before those of the profile, so that V8 has optimized what it will. */
const warmUp = 50;

/** Bun samples only while JavaScript runs: a longer time between two samples is a wait. */
const longestSampleUs = 500;

const commands = ["ADD", "DEL"] as const;

/** Pods that a contender attaches and detaches one after another for a profile. */
interface Profiled {
  readonly contender: Contender;
  readonly set: Delegates;
  readonly rounds: number;
}

/**
 * Where plexusd's main thread spends its time while pods are attached and detached one after another: a call
 * tree, in milliseconds for one pod. plexusd is built anew for it, with the names of all functions.
 */
export async function profilePlexusd(place: Place, profiled: Profiled): Promise<Frame> {
  const [dir, profiles] = [join(place.dir, "readable"), join(place.dir, "profiles")];
  await buildReadable(dir);
  mkdirSync(profiles);
  const build = { ...place.builds[0], plexusd: join(dir, "plexusd.js") };
  const flags = ["--cpu-prof", "--cpu-prof-interval=100", `--cpu-prof-dir=${profiles}`];
  const daemon = await startDaemon(place, build, flags);
  await callPods({ ...profiled, rounds: warmUp });
  const started = performance.now();
  await callPods(profiled);
  const lastUs = (performance.now() - started) * 1000;
  await daemon.stop("SIGTERM");
  const pods = profiled.rounds;
  // Threads write their own profiles; the main thread's is the largest.
  const [largest] = profilesIn(profiles).toSorted((a, b) => b.length - a.length);
  const profile = JSON.parse(largest as string) as CpuProfile;
  return withoutSmall(callTree(profile, { name: "plexusd", pods, lastUs }));
}

/** Where the processes of plexus-standalone that attach and detach a pod spend their time, in the same form. */
export async function profileStandalone(place: Place, profiled: Profiled): Promise<Frame> {
  const dir = join(place.dir, "readable-standalone");
  await buildReadable(dir, "--standalone", "--out", join(dir, "plexus-standalone"));
  const withProfiler = ({ name, steps }: Job): Job => ({
    name: `${name}-profiled`,
    steps: steps.map((step) => ({
      ...step,
      env: { ...step.env, PLEXUS_STANDALONE: join(dir, "plexus-standalone") },
    })),
  });
  await callPods(profiled, withProfiler);
  const pods = profiled.rounds;
  const profiles = join(dir, "profiles");
  const calls = pods * commands.length;
  // A process writes its profile after its answer.
  await waitUntil(
    "every call has written its profile",
    () => readdirSync(profiles).length === calls,
  );
  const run = { name: "plexus-standalone", pods, longestUs: longestSampleUs };
  const trees = profilesIn(profiles).map((text) => callTree(JSON.parse(text) as CpuProfile, run));
  return withoutSmall(mergedTree(trees as [Frame, ...Frame[]]));
}

async function buildReadable(dir: string, ...options: string[]): Promise<void> {
  const bundle = ["scripts/bundle.ts", "--readable", dir, ...options];
  await execa(nodeBinary(), bundle, { cwd: repositoryRoot });
}

/** @throws Error when a call fails */
async function callPods(
  { contender, set, rounds }: Profiled,
  changed: (job: Job) => Job = (job) => job,
): Promise<void> {
  for (let pod = 0; pod < rounds; pod++) {
    for (const command of commands) {
      const job = changed(contender.job({ command, set, sandbox: 0 }));
      const { error } = await contender.runner.runOne(job);
      if (error !== undefined) throw new Error(error);
    }
  }
}

function profilesIn(dir: string): string[] {
  return readdirSync(dir).map((name) => readFileSync(join(dir, name), "utf8"));
}
