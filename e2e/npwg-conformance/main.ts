import { writeFile } from "node:fs/promises";
import process from "node:process";
import { type Flags, parseFlags, usage } from "./flags.ts";
import { readImplementation } from "./implementation.ts";
import { formatMarkdown } from "./report/markdown.ts";
import { formatFinding, formatTap } from "./report/tap.ts";
import type { Requirement } from "./requirement.ts";
import { requirements } from "./requirements/all.ts";
import { runSuite } from "./suite.ts";

async function main(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv);
  if (flags === undefined) {
    process.stdout.write(usage);
    return 0;
  }
  const implementation = await readImplementation(flags.implementation);
  const findings = await runSuite({
    implementation,
    requirements: selected(flags),
    binDir: flags.binDir,
    kubeconfig: flags.kubeconfig,
    onFinding: (finding) => process.stderr.write(`${formatFinding(finding)}\n`),
  });
  const tap = formatTap(findings);
  if (flags.tap === undefined) process.stdout.write(tap);
  else await writeFile(flags.tap, tap);
  if (flags.markdown !== undefined)
    await writeFile(flags.markdown, formatMarkdown(implementation, findings));
  if (flags.json !== undefined) {
    const list = findings.map(({ requirement: { check: _, ...requirement }, ...finding }) => ({
      ...requirement,
      ...finding,
    }));
    await writeFile(flags.json, `${JSON.stringify(list, null, 2)}\n`);
  }
  return findings.some(({ verdict }) => verdict === "failed") ? 1 : 0;
}

function selected({ only }: Flags): readonly Requirement[] {
  const unknown = only.find((id) => requirements.every((each) => each.id !== id));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: there is no such requirement`);
  return requirements.filter(({ id }) => only.length === 0 || only.includes(id));
}

main(process.argv.slice(2)).then(
  (status) => {
    process.exitCode = status;
  },
  (error: unknown) => {
    process.stderr.write(`npwg-conformance: ${error instanceof Error ? error.message : error}\n`);
    process.exitCode = 2;
  },
);
