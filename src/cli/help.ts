import type { Command } from "./command.ts";
import type { Flag } from "./flags.ts";
import { columns } from "./table.ts";

const lineWidth = 100;

/** The list of commands. */
export function overview(commands: readonly Command[]): string {
  return [
    "plexusctl: Plexus on this node",
    "",
    "usage: plexusctl COMMAND [flags]; plexusctl COMMAND --help",
    "",
    ...columns(commands.map(({ name, summary }) => [`  ${name}`, summary])),
  ].join("\n");
}

/** The usage of one command in one line. */
export function usageOf({ name, flags, positionals }: Command): string {
  const words = [name, Object.keys(flags).length > 0 && "[flags]", positionals];
  return `usage: plexusctl ${words.filter(Boolean).join(" ")}`;
}

/** What `plexusctl COMMAND --help` prints. */
export function helpOf(command: Command): string {
  const { name, summary, description, flags, failsWhen } = command;
  const paragraphs = [
    `plexusctl ${name}: ${summary}`,
    usageOf(command),
    description,
    flagLines(Object.entries(flags)).join("\n"),
    failsWhen && `Exit code 1: ${failsWhen}.`,
  ];
  return paragraphs.filter(Boolean).join("\n\n");
}

function flagLines(flags: readonly (readonly [string, Flag])[]): string[] {
  const heads = flags.map(([name, { short, value }]) => {
    const dashed = short === undefined ? `--${name}` : `-${short}, --${name}`;
    return value === undefined ? `  ${dashed}` : `  ${dashed} ${value}`;
  });
  const width = lineWidth - Math.max(...heads.map(({ length }) => length)) - 2;
  const rows = flags.flatMap(([, flag], index) =>
    wrap(`${flag.help}${fallbackText(flag)}`, width).map((line, nth) => [
      nth === 0 ? (heads[index] ?? "") : "",
      line,
    ]),
  );
  return columns(rows);
}

function fallbackText({ fallback }: Flag): string {
  const text = typeof fallback === "object" ? fallback.join(", ") : fallback;
  return typeof text === "string" && text !== "" ? ` (default ${text})` : "";
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = [...lines.slice(-1), word].join(" ");
    if (longer.length > width) lines.push(word);
    else lines.splice(-1, 1, longer);
  }
  return lines;
}
