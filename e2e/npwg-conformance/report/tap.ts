import type { Finding } from "../requirement.ts";

/**
 * TAP version 14. Only requirements that were tested are test points. Those that cannot be tested, and what an
 * implementation may leave out, are comments: they neither pass nor fail.
 */
export function formatTap(findings: readonly Finding[]): string {
  let count = 0;
  const lines = findings.flatMap((finding) => {
    const { requirement, verdict, reason } = finding;
    const { id, level, kind, text } = requirement;
    if (verdict !== "passed" && verdict !== "failed") return [`# ${formatFinding(finding)}`];
    count += 1;
    const point = `${count} - ${escaped(`${id} ${level} ${text}`)}`;
    if (verdict === "passed") return [`ok ${point}`];
    const detail = { reason, level, kind };
    const yaml = Object.entries(detail).map(([key, value]) => `  ${key}: ${JSON.stringify(value)}`);
    return [`not ok ${point}`, "  ---", ...yaml, "  ..."];
  });
  return `${["TAP version 14", ...lines, `1..${count}`].join("\n")}\n`;
}

/** `ID VERDICT: REASON` */
export function formatFinding({ requirement, verdict, reason }: Finding): string {
  return `${requirement.id} ${verdict}${reason === "" ? "" : `: ${reason}`}`;
}

/** A `#` would start a directive. */
function escaped(text: string): string {
  return text.replaceAll(/[\\#]/g, "\\$&");
}
