import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { verdictOfCondition } from "#lib/condition.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { otherListFindings } from "./node-findings.ts";

const list = (name: string, flags = {}): string =>
  JSON.stringify({ cniVersion: "1.0.0", name, ...flags, plugins: [{ type: "plexus" }] });

test.for<[what: string, isCrio: boolean, verdicts: string[]]>([
  ["warns about lists in which CRI-O would collect garbage", true, ["ok", "warning"]],
  ["says nothing without CRI-O", false, []],
])("otherListFindings() %s", async ([, isCrio, verdicts]) => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, "00-plexus.conflist"), list("cbr0"));
  await writeFile(
    join(dir, "10-flannel.conflist"),
    '{"name":"cbr0","plugins":[{"type":"flannel"}]}',
  );
  await writeFile(join(dir, "20-damaged.conflist"), "{");
  await writeFile(join(dir, "86-cnitool.conflist"), list("cnitool", { disableGC: true }));
  await writeFile(join(dir, "87-nerdctl.conflist"), list("nerdctl"));
  const findings = await otherListFindings(dir, async () => isCrio);
  expect(findings.map(verdictOfCondition)).toEqual(verdicts);
  const names = ["86-cnitool.conflist", "87-nerdctl.conflist"].slice(0, verdicts.length);
  expect(findings.map(({ check }) => check)).toEqual(names);
});
