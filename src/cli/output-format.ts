import { stringify } from "yaml";
import type { CliStreams } from "./command.ts";
import { choiceFlag } from "./flags.ts";

export const outputFlag = choiceFlag(["text", "json", "yaml"], {
  short: "o",
  help: "the format",
});

type OutputFormat = (typeof outputFlag)["fallback"];

/** Prints a value in a format; `text` has its lines for people, which a command may have wide, too. */
export function print(
  output: CliStreams,
  format: OutputFormat | "wide",
  { value, text }: { readonly value: unknown; readonly text: () => readonly string[] },
): void {
  if (format === "json") output.out(JSON.stringify(value));
  else if (format === "yaml") output.out(stringify(value).trimEnd());
  else for (const line of text()) output.out(line);
}

/** Formats rows as lines with aligned columns. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
