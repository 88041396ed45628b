import type { Implementation } from "../implementation.ts";
import type { Finding, Verdict } from "../requirement.ts";

const verdicts: readonly Verdict[] = ["passed", "failed", "absent", "not testable"];

/** One table with all requirements, under a line of totals. */
export function formatMarkdown(
  { name, version }: Pick<Implementation, "name" | "version">,
  findings: readonly Finding[],
): string {
  const counts = verdicts.map(
    (each) => `${findings.filter(({ verdict }) => verdict === each).length} ${each}`,
  );
  const rows = findings.map(({ requirement: { id, level, kind, text }, verdict, reason }) =>
    [id, level, kind, text, verdict, reason].map(cell).join(" | "),
  );
  const head = "requirement | level | kind | text | result | reason";
  const table = [head, "--- | --- | --- | --- | --- | ---", ...rows].map((row) => `| ${row} |`);
  return `# ${name} ${version}\n\n${counts.join(", ")}\n\n${table.join("\n")}\n`;
}

/** A pipe would end the cell; `<` could start a tag. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
