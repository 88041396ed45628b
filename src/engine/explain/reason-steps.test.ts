import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Reason, reasonCodes } from "#cni/error.ts";
import { hotPlugSteps, reasonSteps } from "./reason-steps.ts";

/** The rows of a section of the troubleshooting page. */
function rowsOf(heading: string): string[] {
  const page = new URL("../../../docs/operations/troubleshooting.md", import.meta.url);
  const section = readFileSync(page, "utf8").split(`\n${heading}\n`)[1]?.split("\n#")[0] ?? "";
  return section.split("\n").filter((line) => line.startsWith("| `"));
}

test("the troubleshooting page has every reason, with its code and what to do", () => {
  const rows = rowsOf("## Reasons");
  const reasons = Object.keys(reasonCodes) as Reason[];

  expect(rows).toEqual(
    reasons.map((reason) => `| \`${reason}\` | ${reasonCodes[reason]} | ${reasonSteps[reason]} |`),
  );
});

test("the troubleshooting page says what differs for running pods with hot-plug", () => {
  expect(rowsOf("### Reasons with hot-plug")).toEqual(
    Object.entries(hotPlugSteps).map(([reason, step]) => `| \`${reason}\` | ${step} |`),
  );
});
