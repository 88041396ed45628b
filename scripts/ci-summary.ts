import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";

/**
 * Adds up the JSON reports of the test runs: lists what failed, and prints `N passed, N failed` as the last line. A
 * failed step counts as a failure, a passed step without tests as one passed test (.ci/run). Skipped tests are failures.
 */
const result = z.object({ status: z.string(), message: z.string().optional() });
const report = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: z.number(),
  numTotalTests: z.number(),
  testResults: z
    .array(
      result.extend({
        name: z.string(),
        assertionResults: z.array(
          result.extend({ fullName: z.string(), failureMessages: z.array(z.string()).optional() }),
        ),
      }),
    )
    .default([]),
});
type Report = z.infer<typeof report>;

/** The lines of a failure that usually say why. */
const messageLines = 6;

function* failuresOf({ testResults }: Report): Iterable<string> {
  for (const file of testResults) {
    const tests = file.assertionResults.filter((test) => test.status === "failed");
    for (const test of tests) {
      yield text(`${file.name}: ${test.fullName}`, test.failureMessages?.join("\n"));
    }
    if (file.status === "failed" && tests.length === 0) yield text(file.name, file.message);
  }
}

function text(what: string, why = ""): string {
  const lines = why.trim().split("\n").slice(0, messageLines);
  return ["FAILED", what, ...lines.map((line) => `\n    ${line}`)].join(" ");
}

const [dir, ...failedSteps] = process.argv.slice(2);
const reports = readdirSync(dir ?? "", { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".json"))
  .map((name) => report.parse(JSON.parse(readFileSync(join(dir ?? "", name), "utf8"))));
const sum = (pick: (r: Report) => number): number =>
  reports.reduce((total, each) => total + pick(each), 0);
const skipped = sum((r) => r.numPendingTests);
const failed = sum((r) => r.numFailedTests) + skipped + failedSteps.length;
for (const each of reports) for (const line of failuresOf(each)) process.stdout.write(`${line}\n`);
if (failedSteps.length > 0) process.stdout.write(`FAILED steps: ${failedSteps.join(", ")}\n`);
if (skipped > 0) process.stdout.write(`${skipped} tests were skipped: they count as failed\n`);
process.stdout.write(`${sum((r) => r.numPassedTests)} passed, ${failed} failed\n`);
process.exit(failed === 0 && reports.length > 0 ? 0 : 1);
