import { stringify } from "yaml";
import type { CliStreams } from "./command.ts";
import { choiceFlag } from "./flags.ts";

export const outputFlag = choiceFlag(["text", "json", "yaml"], {
  short: "o",
  help: "the format",
  fallback: "text",
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
