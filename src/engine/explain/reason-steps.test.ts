import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Reason, reasonCodes } from "#cni/error.ts";
import { reasonSteps } from "./reason-steps.ts";

test("the troubleshooting page has every reason, with its code and what to do", () => {
  const page = new URL("../../../docs/operations/troubleshooting.md", import.meta.url);
  const section = readFileSync(page, "utf8").split("\n## Reasons\n")[1]?.split("\n## ")[0] ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  const reasons = Object.keys(reasonCodes) as Reason[];

  expect(rows).toEqual(
    reasons.map((reason) => `| \`${reason}\` | ${reasonCodes[reason]} | ${reasonSteps[reason]} |`),
  );
});
