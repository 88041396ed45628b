import { parseArgs } from "node:util";
import type { CliOutput, Command } from "./command.ts";
import { configCheckCommand } from "./config-check.ts";
import { installCommand } from "./install.ts";
import { recordsCommand } from "./records.ts";
import { statusCommand } from "./status.ts";
import { uninstallCommand } from "./uninstall.ts";

const commands: readonly Command[] = [
  statusCommand,
  recordsCommand,
  configCheckCommand,
  installCommand,
  uninstallCommand,
];

/** Runs one command. Exit codes: 0 done, 1 not done, 2 not understood. */
export async function runCli(argv: readonly string[], output: CliOutput): Promise<number> {
  const command = commands.find(({ name }) => startsWith(argv, name.split(" ")));
  if (command === undefined) return noCommand(argv, output);
  const rest = argv.slice(command.name.split(" ").length);
  if (rest.includes("--help") || rest.includes("-h")) {
    output.out(helpOf(command));
    return 0;
  }
  const args = parse(command, rest);
  if (typeof args === "string") {
    output.err(`plexusctl ${command.name}: ${args}`);
    output.err(`usage: plexusctl ${command.name} ${command.synopsis}`.trimEnd());
    return 2;
  }
  try {
    return await command.run(args, output);
  } catch (error) {
    output.err(
      `plexusctl ${command.name}: ${error instanceof Error ? error.message : String(error)}`,
    );
    return 1;
  }
}

/** The list of commands. */
export function usage(): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return [
    "plexusctl: Plexus on this node",
    "",
    "usage: plexusctl COMMAND [flags]; plexusctl COMMAND --help",
    "",
    ...lines,
  ].join("\n");
}

function noCommand(argv: readonly string[], output: CliOutput): number {
  const asked = argv[0] === "--help" || argv[0] === "-h" || argv[0] === "help";
  if (asked) {
    output.out(usage());
    return 0;
  }
  if (argv.length > 0) output.err(`plexusctl: unknown command ${JSON.stringify(argv.join(" "))}`);
  output.err(usage());
  return 2;
}

function helpOf({ name, synopsis, summary, help }: Command): string {
  return `plexusctl ${name}: ${summary}\n\nusage: plexusctl ${name} ${synopsis}\n\n${help}`;
}

function startsWith(argv: readonly string[], words: readonly string[]): boolean {
  return words.every((word, index) => argv[index] === word);
}

function parse(command: Command, argv: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: command.flags,
      strict: true,
      allowPositionals: command.arity > 0,
    });
    if (positionals.length !== command.arity) return `takes ${command.arity} argument`;
    return { flags: values as Record<string, string | boolean | undefined>, positionals };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
