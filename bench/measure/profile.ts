import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { nodeBinary, repositoryRoot } from "../../e2e/support/paths.ts";
import type { Contender } from "../contenders.ts";
import type { Delegates } from "../delegates.ts";
import { type Place, startDaemon } from "../place.ts";
import type { Frame } from "../results.ts";

/** Pods that are attached and detached before those of the profile, so that V8 has optimized what it will. */
const warmUp = 50;

/** Calls that take less than this part of the whole count as their caller's. */
const smallest = 0.001;

/** A node of V8's call tree. */
interface ProfileNode {
  readonly id: number;
  readonly callFrame: { functionName: string; url: string; lineNumber: number };
  readonly children?: readonly number[];
}

/** A profile as V8 writes it; times in microseconds. */
interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/**
 * Where plexusd's main thread spends its time while pods are attached and detached one after another: a call
 * tree, in milliseconds for one pod. plexusd is built anew for it, with the names of all functions.
 */
export async function profilePlexusd(
  place: Place,
  { contender, set, rounds }: { contender: Contender; set: Delegates; rounds: number },
): Promise<Frame> {
  const [readable, profiles] = [join(place.dir, "readable"), join(place.dir, "profiles")];
  const bundle = ["scripts/bundle.ts", "--readable", readable];
  await execa(nodeBinary(), bundle, { cwd: repositoryRoot });
  mkdirSync(profiles);
  const build = { ...place.builds[0], plexusd: join(readable, "plexusd.js") };
  const flags = ["--cpu-prof", "--cpu-prof-interval=100", `--cpu-prof-dir=${profiles}`];
  const daemon = await startDaemon(place, build, flags);
  const callPods = async (count: number): Promise<void> => {
    for (let pod = 0; pod < count; pod++) {
      for (const command of ["ADD", "DEL"] as const)
        await contender.runner.runOne(contender.job({ command, set, sandbox: 0 }));
    }
  };
  await callPods(warmUp);
  const started = performance.now();
  await callPods(rounds);
  const lastUs = (performance.now() - started) * 1000;
  await daemon.stop("SIGTERM");
  return callTree(largestProfile(profiles), { lastUs, pods: rounds });
}

/** Threads write their own profiles; the main thread's is the largest. */
function largestProfile(dir: string): CpuProfile {
  const texts = readdirSync(dir).map((name) => readFileSync(join(dir, name), "utf8"));
  const [largest = ""] = texts.toSorted((a, b) => b.length - a.length);
  return JSON.parse(largest) as CpuProfile;
}

/** The call tree of the last microseconds, divided by the pods; without the time in which nothing runs. */
function callTree(
  { nodes, samples, timeDeltas }: CpuProfile,
  { lastUs, pods }: { lastUs: number; pods: number },
): Frame {
  const own = new Map<number, number>();
  let left = lastUs;
  for (let at = samples.length - 1; at >= 0 && left > 0; at--) {
    const [id = 0, took = 0] = [samples[at], timeDeltas[at]];
    own.set(id, (own.get(id) ?? 0) + took);
    left -= took;
  }
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const moduleAt = moduleFinder();
  const frameOf = ({ id, callFrame, children = [] }: ProfileNode): Frame => {
    const below = children
      .map((child) => frameOf(byId.get(child) as ProfileNode))
      .filter(({ name, ms }) => ms > 0 && name !== "(idle)");
    const ms = below.reduce((sum, each) => sum + each.ms, (own.get(id) ?? 0) / pods / 1000);
    return { name: callFrame.functionName, module: moduleAt(callFrame), ms, children: below };
  };
  const root = frameOf(nodes[0] as ProfileNode);
  return { ...withoutSmall(root, root.ms * smallest), name: "plexusd" };
}

function withoutSmall(frame: Frame, leastMs: number): Frame {
  const children = frame.children
    .filter(({ ms }) => ms >= leastMs)
    .map((child) => withoutSmall(child, leastMs));
  return { ...frame, ms: Number(frame.ms.toFixed(4)), children };
}

/** Says which module a function of a bundle is from: esbuild writes its path as a comment before it. */
function moduleFinder(): (frame: ProfileNode["callFrame"]) => string {
  const files = new Map<string, string[]>();
  return ({ url, lineNumber }) => {
    if (!url.startsWith("file:")) return url;
    const lines = files.get(url) ?? readFileSync(fileURLToPath(url), "utf8").split("\n");
    files.set(url, lines);
    const start = lines.findLastIndex((line, at) => at <= lineNumber && line.startsWith("// "));
    return lines[start]?.slice("// ".length) ?? url;
  };
}
