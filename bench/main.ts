import { execa } from "execa";
import { differences, expectedCounts, writeExpectedCounts } from "./counts/compare.ts";
import { removeCpuGroups } from "./measure/accounting.ts";
import { findMultus } from "./peers/multus.ts";
import { publish, readResults } from "./report/output.ts";
import type { Results } from "./results.ts";
import { runBenchmark } from "./run.ts";

/*
 * The variables that choose what runs:
 *
 * - QUICK: not empty: fewer rounds, with JavaScript that is not yet optimized
 * - BENCH_ROUNDS: rounds with one pod at a time: 200, with QUICK 8; other cases in proportion
 * - BENCH_PEERS: none: without Multus
 * - BENCH_ONLY: the contenders, with commas: direct, floor, floor-duties, floor-standalone,
 *   plexus, plexus-after, plexus-other, plexus-standalone, plexus-standalone-further,
 *   plexus-standalone-other, multus, multus-thick
 * - BENCH_CASES: the parts of the run, with commas: the cases noop, real, real-pause, none,
 *   five, crowd, real-20, real-50, real-100, and start, counts, phases, profile,
 *   disk, memory, sizes, growth
 * - BENCH_PLEXUS: the dist/ of another build: the contenders …-other
 * - BENCH_MULTUS: a directory with multus, multus-shim and multus-daemon. By default, Multus
 *   4.3.0 is built once into $PLEXUS_CACHE. If that fails, the run continues without it; with
 *   CI=true it fails
 *
 * Results also go to dist/bench/. To compare a change with the build before it:
 *
 * cp -r dist /tmp/before    # then change something, and make build
 * BENCH_PLEXUS=/tmp/before BENCH_CASES=real BENCH_ROUNDS=60 \
 *   BENCH_PEERS=none BENCH_ONLY=direct,floor,plexus,plexus-other node bench/main.ts
 *
 * The run fails if the counts of a call (waits, frames, on amd64 system calls, …) differ from
 * bench/counts/expected.json: bytes by more than 5 %, poll and read by 50 %, waitid by 100 %.
 * After an intended change, write the new ones:
 *
 * BENCH_PEERS=none BENCH_CASES=counts BENCH_ONLY=plexus node bench/main.ts --write-counts
 */

/**
 * Measures Plexus against the delegates alone and against Multus: `make bench`. It works in private network,
 * mount and process namespaces. `--write` updates bench/performance.json and docs/operations/, `--write-counts` the
 * counts that later runs must have, `--from FILE` makes tables and charts of an earlier run's results. Variables: above.
 */
async function reExecute(): Promise<number> {
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const flags = [...namespaces, "--propagation", "private"];
  const command = [...flags, process.execPath, import.meta.filename, ...process.argv.slice(2)];
  const groups = `plexus-bench-${process.pid}`;
  // Multus is built here, because the namespace has no network to get its modules from.
  const isAlone = (await findMultus()) === undefined;
  const peers = isAlone ? { BENCH_PEERS: "none" } : {};
  const env = { PLEXUS_BENCH_INSIDE: "1", PLEXUS_BENCH_CGROUPS: groups, ...peers };
  // An interrupt ends the child, which is in the same process group; here the groups are still to be removed.
  process.on("SIGINT", () => undefined);
  try {
    const { exitCode } = await execa("unshare", command, { env, stdio: "inherit", reject: false });
    return exitCode ?? 1;
  } finally {
    removeCpuGroups(groups);
  }
}

/** Compares the counts, or with --write-counts makes them those that are expected. */
function countsAreExpected({ counts }: Results): boolean {
  if (counts === undefined) return true;
  if (process.argv.includes("--write-counts")) writeExpectedCounts(counts);
  const changed = differences(expectedCounts(), counts);
  if (changed.length === 0) return true;
  const how = "BENCH_CASES=counts BENCH_ONLY=plexus node bench/main.ts --write-counts";
  const lines = ["bench: an ADD or a DEL does not come to what it is expected to:", ...changed];
  process.stderr.write(`${lines.join("\n  ")}\nIf that is right: ${how}\n`);
  return false;
}

const from = process.argv.indexOf("--from");
const write = process.argv.includes("--write");
if (from >= 0) {
  await publish(readResults(process.argv[from + 1] ?? ""), { write });
  process.exit(0);
}
if (process.getuid?.() !== 0) {
  process.stderr.write("bench: it makes network namespaces and so needs root\n");
  process.exit(1);
}
if (process.env.PLEXUS_BENCH_INSIDE !== "1") process.exit(await reExecute());
const results = await runBenchmark();
await publish(results, { write });
process.exit(countsAreExpected(results) ? 0 : 1);
