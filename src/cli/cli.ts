import { parseArgs } from "node:util";
import { configCheckCommand } from "#cli/inspect/config-check.ts";
import { devicesCommand } from "#cli/inspect/devices.ts";
import { doctorCommand } from "#cli/inspect/doctor/doctor.ts";
import { explainCommand } from "#cli/inspect/explain/explain.ts";
import { recordsCommand } from "#cli/inspect/records.ts";
import { statusCommand } from "#cli/inspect/status.ts";
import { dockerCommand } from "#cli/node/docker.ts";
import { gcCommand } from "#cli/node/gc.ts";
import { installCommand } from "#cli/node/install.ts";
import { sandboxesCommand } from "#cli/node/sandboxes.ts";
import { uninstallCommand } from "#cli/node/uninstall.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type CliOutput, type Command, type CommandArguments, ExitCode } from "./command.ts";
import { migrateCommand } from "./migrate/migrate.ts";

const commands: readonly Command[] = [
  explainCommand,
  doctorCommand,
  statusCommand,
  recordsCommand,
  devicesCommand,
  gcCommand,
  configCheckCommand,
  installCommand,
  uninstallCommand,
  migrateCommand,
  sandboxesCommand,
  dockerCommand,
];

const neverStopping = new AbortController().signal;

/** How long a command has to end when it is asked to, where it does not say. */
const defaultStopMs = 1000;

/** How long the command of a command line may take to end, in milliseconds. */
export function stopMsOf(argv: readonly string[]): number {
  return commandOf(argv)?.stopMs ?? defaultStopMs;
}

function commandOf(argv: readonly string[]): Command | undefined {
  return commands.find(({ name }) => startsWith(argv, name.split(" ")));
}

/** Runs one command, until `stopping` is aborted at most, and returns the process's exit code. */
export async function runCli(
  argv: readonly string[],
  output: CliOutput,
  stopping: AbortSignal = neverStopping,
): Promise<ExitCode> {
  const command = commandOf(argv);
  if (command === undefined) return noCommand(argv, output);
  const rest = argv.slice(command.name.split(" ").length);
  if (rest.includes("--help") || rest.includes("-h")) {
    output.out(helpOf(command));
    return ExitCode.Done;
  }
  const parsed = parse(command, rest);
  if (parsed.kind === "wrong-usage") {
    output.err(`plexusctl ${command.name}: ${parsed.problem}`);
    output.err(`usage: plexusctl ${command.name} ${command.synopsis}`.trimEnd());
    return ExitCode.WrongUsage;
  }
  try {
    return await command.run(parsed.args, output, stopping);
  } catch (error) {
    output.err(`plexusctl ${command.name}: ${errorMessage(error)}`);
    return ExitCode.Failed;
  }
}

/** The list of commands. */
function usage(): string {
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

function noCommand(argv: readonly string[], output: CliOutput): ExitCode {
  const wantsHelp = argv[0] === "--help" || argv[0] === "-h" || argv[0] === "help";
  if (wantsHelp) {
    output.out(usage());
    return ExitCode.Done;
  }
  if (argv.length > 0) output.err(`plexusctl: unknown command ${JSON.stringify(argv.join(" "))}`);
  output.err(usage());
  return ExitCode.WrongUsage;
}

function helpOf({ name, synopsis, summary, help }: Command): string {
  return `plexusctl ${name}: ${summary}\n\nusage: plexusctl ${name} ${synopsis}\n\n${help}`;
}

function startsWith(argv: readonly string[], words: readonly string[]): boolean {
  return words.every((word, index) => argv[index] === word);
}

/** What the words after a command's name are. */
type ParsedArguments =
  | { readonly kind: "arguments"; readonly args: CommandArguments }
  | { readonly kind: "wrong-usage"; readonly problem: string };

function parse(command: Command, argv: readonly string[]): ParsedArguments {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: command.flags,
      strict: true,
      allowPositionals: command.argumentCount !== 0,
    });
    if (!isRightCount(positionals.length, command)) {
      return { kind: "wrong-usage", problem: `takes ${argumentsText(command)}` };
    }
    const flags = values as CommandArguments["flags"];
    const problem = badChoice(command, flags);
    if (problem !== undefined) return { kind: "wrong-usage", problem };
    return { kind: "arguments", args: { flags, positionals } };
  } catch (error) {
    return { kind: "wrong-usage", problem: errorMessage(error) };
  }
}

/** What is wrong with the first flag that has none of the values that it may have. */
function badChoice(
  { choices = {} }: Command,
  flags: CommandArguments["flags"],
): string | undefined {
  const bad = Object.entries(choices).find(
    ([name, values]) => !values.includes(String(flags[name])),
  );
  if (bad === undefined) return undefined;
  const [name, values] = bad;
  const list = `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`;
  return `--${name} must be ${list}: ${JSON.stringify(flags[name])}`;
}

function isRightCount(count: number, { argumentCount }: Command): boolean {
  return argumentCount === "one or more" ? count > 0 : count === argumentCount;
}

function argumentsText({ argumentCount }: Command): string {
  return `${argumentCount} argument${argumentCount === 1 ? "" : "s"}`;
}
