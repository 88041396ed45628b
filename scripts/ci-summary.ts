import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";

/**
 * Adds up the JSON reports of the test runs and prints `N passed, N failed` as the last line. A failed step
 * counts as a failure, a passed step without tests as one passed test (.ci/run). Skipped tests are failures.
 */
const report = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: z.number(),
  numTotalTests: z.number(),
});

const [dir, failedSteps] = process.argv.slice(2);
const reports = readdirSync(dir ?? "")
  .filter((name) => name.endsWith(".json"))
  .map((name) => report.parse(JSON.parse(readFileSync(join(dir ?? "", name), "utf8"))));
const sum = (pick: (r: z.infer<typeof report>) => number): number =>
  reports.reduce((total, each) => total + pick(each), 0);
const skipped = sum((r) => r.numPendingTests);
const failed = sum((r) => r.numFailedTests) + skipped + Number(failedSteps);
if (skipped > 0) process.stdout.write(`${skipped} tests were skipped: they count as failed\n`);
process.stdout.write(`${sum((r) => r.numPassedTests)} passed, ${failed} failed\n`);
process.exit(failed === 0 && reports.length > 0 ? 0 : 1);
