import { execa } from "execa";
import { removeCpuGroups } from "./measure/accounting.ts";
import { publish, readResults } from "./report/output.ts";
import { runBenchmark } from "./run.ts";

/**
 * Measures Plexus against the delegates alone and against Multus: `make bench`. It works in private network,
 * mount and process namespaces. `--write` updates bench/performance.json and docs/operations/, `--from FILE` makes tables
 * and charts of an earlier run's results. The variables are listed in docs/operations/performance.md.
 */
async function reExecute(): Promise<number> {
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const flags = [...namespaces, "--propagation", "private"];
  const command = [...flags, process.execPath, import.meta.filename, ...process.argv.slice(2)];
  const groups = `plexus-bench-${process.pid}`;
  const env = { PLEXUS_BENCH_INSIDE: "1", PLEXUS_BENCH_CGROUPS: groups };
  // An interrupt ends the child, which is in the same process group; here the groups are still to be removed.
  process.on("SIGINT", () => undefined);
  try {
    const { exitCode } = await execa("unshare", command, { env, stdio: "inherit", reject: false });
    return exitCode ?? 1;
  } finally {
    removeCpuGroups(groups);
  }
}

const from = process.argv.indexOf("--from");
const write = process.argv.includes("--write");
if (from >= 0) {
  publish(readResults(process.argv[from + 1] ?? ""), { write });
  process.exit(0);
}
if (process.getuid?.() !== 0) {
  process.stderr.write("bench: it makes network namespaces and so needs root\n");
  process.exit(1);
}
if (process.env.PLEXUS_BENCH_INSIDE !== "1") process.exit(await reExecute());
publish(await runBenchmark(), { write });
process.exit(0);
